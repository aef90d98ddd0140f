"""Decisions, as pure functions: the status, and what to do."""
