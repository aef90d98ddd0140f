"""Commands for jobs on a cluster, which run kubectl."""
