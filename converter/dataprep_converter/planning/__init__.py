"""Planning: every sample's place in a split and a shard."""
