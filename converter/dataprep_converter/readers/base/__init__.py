"""What readers share: blocks, files ahead, listings, partitions."""
