"""The reader of TFRecord files."""
