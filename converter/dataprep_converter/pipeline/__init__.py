"""The pipeline: batches of samples are read, transformed, projected onto features, and written to shards."""
