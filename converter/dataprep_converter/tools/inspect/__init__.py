"""`dataprep inspect` and `dataprep head`: show data sets and single files, also as an HTML page."""
