"""Text formats: JSON Lines and CSV."""
