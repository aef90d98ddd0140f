"""Nested values (structs, lists of structs, maps). They pass through the steps as JSON text. Some formats write them as nested values."""
