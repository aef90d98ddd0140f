"""The watches, the cache that they fill, and the work queue."""
