"""Samples: the units that contain them, and the split and shard of each sample."""
