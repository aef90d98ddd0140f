"""Nested values (structs, lists of structs, maps), which travel through the steps as JSON text, and which some formats write as they are."""
