"""The output folder of a data set, and the files in it."""
