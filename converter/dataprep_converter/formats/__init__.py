"""Formats: the encoder and the decoder of each, side by side."""
