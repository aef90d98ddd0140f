"""Parquet and Arrow."""
