"""`write`: turns data of many kinds into Arrow batches, and writes them as shards of a data set."""
