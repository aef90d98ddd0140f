"""JSON Lines and CSV."""
