"""Readers of Parquet and Arrow, and what all tables share."""
