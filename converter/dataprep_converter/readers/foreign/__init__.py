"""Readers of data sets that the libraries of training frameworks have written, without a manifest of ours."""
