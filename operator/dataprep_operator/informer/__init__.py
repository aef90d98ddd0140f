"""Watches, their cache, and the queue of what to look at."""
