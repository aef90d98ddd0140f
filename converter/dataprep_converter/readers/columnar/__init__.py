"""Readers of Parquet and Arrow files, and code for tables that other readers use too."""
