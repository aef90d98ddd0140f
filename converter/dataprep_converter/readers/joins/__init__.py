"""The reader that joins several sources by keys."""
