"""Formats of DL4J: DataSet and MultiDataSet."""
