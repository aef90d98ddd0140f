"""Reconcilers: observe, decide, write the status, act."""
