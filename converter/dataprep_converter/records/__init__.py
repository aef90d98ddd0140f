"""Records: batches of samples, columns and features."""
