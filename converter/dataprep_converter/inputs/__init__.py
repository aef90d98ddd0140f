"""Inputs: access to stores and archives, and reading by range or as a stream."""
