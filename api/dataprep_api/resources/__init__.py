"""The custom resources, each with its spec and status."""
