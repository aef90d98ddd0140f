"""The output folder of a data set and its files."""
