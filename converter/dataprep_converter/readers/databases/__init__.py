"""Readers of databases: SQL and MaxCompute."""
