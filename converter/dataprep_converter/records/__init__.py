"""Batches of samples, and their columns and features."""
