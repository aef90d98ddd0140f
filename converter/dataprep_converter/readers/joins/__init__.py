"""The reader that joins two sources by keys."""
