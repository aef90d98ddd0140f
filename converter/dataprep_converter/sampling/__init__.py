"""Samples: the units that hold them, and which are in which split and shard."""
