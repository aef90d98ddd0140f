"""The pipeline: batches of samples through steps and features into shards."""
