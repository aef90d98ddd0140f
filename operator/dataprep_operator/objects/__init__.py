"""The cluster's objects, parsed into values."""
