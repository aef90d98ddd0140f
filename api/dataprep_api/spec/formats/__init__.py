"""The options of the output formats, with one module per format."""
