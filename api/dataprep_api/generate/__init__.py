"""Generates the CRDs, the JSON Schema, and the documentation pages of fields and reasons."""
