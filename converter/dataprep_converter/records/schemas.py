"""Converts Arrow schemas to and from text, for a reader's state, which can contain only JSON values."""

import pyarrow as pa


def schema_text(schema: pa.Schema) -> str:
    """Returns the schema as text: Arrow's IPC message in hexadecimal, including the metadata of fields."""
    return schema.serialize().to_pybytes().hex()


def parse_schema(text: str) -> pa.Schema:
    """Converts text that `schema_text` returned back to the schema."""
    schema: pa.Schema = pa.ipc.read_schema(pa.py_buffer(bytes.fromhex(text)))
    return schema
