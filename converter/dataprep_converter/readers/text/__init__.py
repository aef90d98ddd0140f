"""Readers of text: CSV, JSON Lines, libsvm, plain lines."""
