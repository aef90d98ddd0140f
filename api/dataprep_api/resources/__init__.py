"""The custom resources: spec and status of each."""
