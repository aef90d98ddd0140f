"""What the objects of the cluster say, as values."""
