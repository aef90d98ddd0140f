"""Nested values (structs, lists of structs, maps).

The steps see nested values as JSON text. Some formats convert the JSON text back to nested values.
"""
