"""Statistics of the records in each split of a data set."""
