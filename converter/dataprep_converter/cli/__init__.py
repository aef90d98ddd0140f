"""The commands of `dataprep`."""
