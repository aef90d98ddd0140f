"""Statistics of a data set's records, by split."""
