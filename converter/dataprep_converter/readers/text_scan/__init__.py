"""Finds the records of text files while planning."""
