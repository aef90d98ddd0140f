"""Convert many records of a text format to columns in one call, without checking each value in a Python loop.

Each function returns a column in which missing values are null. If a value is wrong, the function returns None, and the caller then checks
the records one by one to find the wrong value (`values.py`).
"""

import itertools
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa

from dataprep_converter.core.tensors import Array, is_tensor, masked, null_mask, pc, to_arrow
from dataprep_converter.records.feature import FeatureSpec

_arrow: Any = pa  # the type stubs don't cover arrays whose types are known only at run time
_TRUTH: Final = ("true", "false")


def of_values(values: Sequence[Any], kind: Any) -> "Array | None":
    """Convert JSON values, or flat lists of them, to a column of this type.

    If the column has lists of variable length, a null becomes an empty list.
    """
    if is_tensor(kind) and len(kind.shape) != 1:
        return None
    storage = kind.storage_type if is_tensor(kind) else kind
    is_list = pa.types.is_large_list(storage) or pa.types.is_fixed_size_list(storage)
    try:
        # Check the Python types first: Arrow would silently truncate a fraction in a column of integers.
        accepted = _accepted_types(storage.value_type) if is_list else {*_accepted_types(kind), type(None)}
        if not set(map(type, itertools.chain.from_iterable(filter(None, values)) if is_list else values)) <= accepted:
            return None
        if pa.types.is_large_list(storage):
            values = [[] if value is None else value for value in values]
        array = _arrow.array(values, storage)
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        return None
    column: Array = _arrow.ExtensionArray.from_storage(kind, array) if is_tensor(kind) else array
    return column


def _accepted_types(kind: pa.DataType) -> set[type]:
    """Return the Python types of JSON values that a column of this type accepts."""
    if pa.types.is_integer(kind):
        return {int}
    if pa.types.is_floating(kind):
        return {float, int}
    return {bool} if pa.types.is_boolean(kind) else {str}


def of_cells(cells: Sequence[Sequence[bytes | None]], feature: FeatureSpec, kind: pa.DataType) -> "Array | None":
    """Convert a feature's cells to a column of type `kind`.

    `cells` contains a sequence of strings for each of the feature's CSV columns.
    """
    texts: list[Any] = [pa.array(column, pa.large_binary()) for column in cells]
    missing = null_mask(texts[0]) if any(text.null_count for text in texts) else None
    try:
        if feature.dtype == "bytes":
            text_column: Array | None = texts[0].cast(kind) if len(texts) == 1 else None
            return text_column
        if missing is not None:
            if any((null_mask(text) != missing).any() for text in texts):
                return None
            texts = [text.fill_null(b"false" if feature.dtype == "bool" else b"0") for text in texts]
        columns = [_numbers(text.cast(pa.large_string()), feature) for text in texts]
        values = np.stack([np.asarray(column).astype(feature.dtype, casting="same_kind") for column in columns], axis=1)
        numbers = to_arrow(np.ascontiguousarray(values.reshape(len(values), *feature.shape)))
    except (pa.ArrowException, TypeError, ValueError):
        return None
    if not numbers.type.equals(kind):
        return None
    return numbers if missing is None else masked(numbers, missing)


def _numbers(text: Any, feature: FeatureSpec) -> Any:
    """Convert strings to integers, float64 or booleans. Raises ValueError for a string that isn't a value of the feature's type."""
    if feature.dtype == "bool":
        if not pc.all(pc.is_in(text, value_set=pa.array(_TRUTH, pa.large_string()))).as_py():
            raise ValueError
        return pc.equal(text, "true").to_numpy(zero_copy_only=False)
    if feature.kind == "float":
        return text.cast(pa.float64()).to_numpy()
    # Arrow would parse 0x10 as a number.
    if pc.any(pc.match_substring_regex(text, "[^0-9-]")).as_py():
        raise ValueError
    # Arrow's cast, unlike numpy's, refuses numbers that don't fit.
    return text.cast(pa.int64()).cast(pa.from_numpy_dtype(np.dtype(feature.dtype))).to_numpy()
