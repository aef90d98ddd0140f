"""The operator's HTTP server."""
