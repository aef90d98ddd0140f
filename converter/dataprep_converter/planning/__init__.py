"""Planning: decides which split and which shard each sample belongs to."""
