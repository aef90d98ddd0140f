"""Data sets of data frames: the code that the packages for Spark and for other data frame engines share.

This package imports no engine. docs/design.md describes how a data frame becomes a data set.
"""
