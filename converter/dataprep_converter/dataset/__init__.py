"""The output folder of a data set, and what lies in it."""
