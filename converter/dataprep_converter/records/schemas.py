"""Arrow schemas in a reader's state, which holds JSON values only."""

import pyarrow as pa


def frozen(schema: pa.Schema) -> str:
    """The schema as text: Arrow's IPC message in hexadecimal, metadata of the fields included."""
    return schema.serialize().to_pybytes().hex()


def thawed(text: str) -> pa.Schema:
    """The schema behind `frozen`."""
    found: pa.Schema = pa.ipc.read_schema(pa.py_buffer(bytes.fromhex(text)))
    return found
