"""Options of the output formats: one file per format."""
