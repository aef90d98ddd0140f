"""Data sets of data frames: what the parts for Spark and for other engines of data frames have in common.

This package imports no engine. docs/design.md describes how a data frame becomes a data set.
"""
