"""Statistics of the records, by split."""
