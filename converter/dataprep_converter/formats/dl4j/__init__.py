"""DL4J's formats: DataSet and MultiDataSet."""
