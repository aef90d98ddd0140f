"""Shared parts of readers: blocks, reading ahead, listings, partitions."""
