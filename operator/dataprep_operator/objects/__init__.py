"""Parses the cluster's objects into values."""
