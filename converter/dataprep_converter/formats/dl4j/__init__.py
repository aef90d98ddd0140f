"""DL4J's DataSet."""
