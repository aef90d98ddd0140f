"""Readers of data sets that training frameworks' libraries have written. Such data sets have no manifest of this project."""
