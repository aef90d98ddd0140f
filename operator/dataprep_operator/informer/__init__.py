"""Watches with their cache, and the work queue."""
