"""Readers of images and their labels, annotations and masks."""
