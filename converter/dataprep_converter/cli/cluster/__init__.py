"""Commands about jobs on a cluster, which run kubectl."""
