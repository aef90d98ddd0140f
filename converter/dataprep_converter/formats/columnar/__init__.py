"""Columnar formats: Parquet and Arrow."""
