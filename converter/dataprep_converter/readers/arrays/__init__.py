"""Readers of arrays: IDX, .npy, records of a fixed length."""
