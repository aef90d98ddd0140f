"""Recognise Arrow's types of text and of bytes.

In a batch, text and bytes always have an Arrow type with offsets. `is_text` and `is_bytes` recognise these types. Inputs and data frames
also contain string views, binary views, and bytes of a fixed size. `is_any_text` and `is_any_bytes` recognise all of these types.
"""

from typing import Any

import pyarrow as pa

_types: Any = pa.types  # the stubs know only some of the types that each function accepts


def is_text(kind: pa.DataType) -> bool:
    """Return whether a batch's column of this type contains text."""
    return bool(_types.is_string(kind) or _types.is_large_string(kind))


def is_bytes(kind: pa.DataType) -> bool:
    """Return whether a batch's column of this type contains bytes."""
    return bool(_types.is_binary(kind) or _types.is_large_binary(kind))


def is_text_or_bytes(kind: pa.DataType) -> bool:
    """Return whether a batch's column of this type contains text or bytes."""
    return is_text(kind) or is_bytes(kind)


def is_any_text(kind: pa.DataType) -> bool:
    """Return whether this is any of Arrow's types of text."""
    return is_text(kind) or bool(_types.is_string_view(kind))


def is_any_bytes(kind: pa.DataType) -> bool:
    """Return whether this is any of Arrow's types of bytes."""
    return is_bytes(kind) or bool(_types.is_binary_view(kind) or _types.is_fixed_size_binary(kind))


def without_dictionary(kind: pa.DataType) -> pa.DataType:
    """Return the type of a dictionary's values. Any other type is returned unchanged."""
    return kind.value_type if isinstance(kind, pa.DictionaryType) else kind
