"""Who leads, and where."""
