"""Nested values (structs, lists of structs, maps).

The steps see nested values as JSON text. Some formats write them as nested values again.
"""
