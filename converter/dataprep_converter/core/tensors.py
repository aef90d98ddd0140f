"""Convert tensors between Arrow and numpy. FixedShapeTensor columns with any offset are converted without a copy."""

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dataprep_converter.core.errors import BadSpec

Array: TypeAlias = "pa.Array[Any]"
"""An Arrow array of any type. The array's DataType is checked at run time."""


class _Compute:
    """Imports `pyarrow.compute` when its first function is used.

    The import takes 40 ms, because it generates the documentation of all functions. A worker doesn't need any of these functions until it
    has begun to read its input.
    """

    def __getattr__(self, name: str) -> Any:
        import pyarrow.compute

        function = getattr(pyarrow.compute, name)
        setattr(self, name, function)
        return function


pc: Any = _Compute()
"""Arrow's compute functions. These functions are untyped here, because the stubs know only some of the types that each function accepts."""

_arrow: Any = pa  # the stubs don't cover value types and buffers that are known only at run time

NUMPY_NAMES: Final[Mapping[pa.DataType, str]] = {
    pa.int8(): "int8", pa.int16(): "int16", pa.int32(): "int32", pa.int64(): "int64",
    pa.uint8(): "uint8", pa.uint16(): "uint16", pa.uint32(): "uint32",
    pa.float16(): "float16", pa.float32(): "float32", pa.float64(): "float64", pa.bool_(): "bool",
}  # fmt: skip
"""Maps each Arrow number type that records can contain to its numpy name."""

_ARROW_TYPES: Final = {name: arrow for arrow, name in NUMPY_NAMES.items()}


_MOST_VALUES: Final = 2**31 - 1
"""Maximum number of values in a tensor, which is Arrow's limit for the size of a list."""
_MOST_DIMENSIONS: Final = 63
"""Maximum number of dimensions of a tensor. An array of tensors has one more dimension, and numpy supports no more."""


def shape_fault(shape: Sequence[int]) -> str | None:
    """Return None if a record can contain a tensor of this shape, or else the reason why it can't."""
    if len(shape) > _MOST_DIMENSIONS:
        return f"a tensor has at most {_MOST_DIMENSIONS} dimensions, got {len(shape)}"
    if math.prod(shape) > _MOST_VALUES:
        return f"a tensor has at most {_MOST_VALUES:,} values, got {math.prod(shape):,} of shape {list(shape)}"
    return None


def arrow_type(dtype: str, shape: tuple[int, ...] = ()) -> pa.DataType:
    """Return the column type for numbers of `dtype` (numpy's name), as scalars or as tensors of `shape`.

    Raises BadSpec for a shape that no record can contain.
    """
    kind: pa.DataType = _ARROW_TYPES[dtype]
    if shape:
        if fault := shape_fault(shape):
            raise BadSpec(f"No record can hold this: {fault}.")
        kind = _arrow.fixed_shape_tensor(kind, shape)
    return kind


def is_tensor(kind: pa.DataType) -> bool:
    """Return whether a column of this type contains one tensor per row, all of the same shape."""
    return isinstance(kind, pa.FixedShapeTensorType)


def shape_of(kind: pa.DataType) -> tuple[int, ...]:
    """Return the shape of a row of a tensor column, or () for any other column."""
    return tuple(kind.shape) if isinstance(kind, pa.FixedShapeTensorType) else ()


def value_type(kind: pa.DataType) -> pa.DataType:
    """Return the type of the numbers in a tensor column. Any other type is returned unchanged."""
    return kind.value_type if isinstance(kind, pa.FixedShapeTensorType) else kind


def tensor_bytes(schema: pa.Schema) -> int:
    """Return the total size of the tensors in one row, in bytes."""
    tensors = [field.type for field in schema if is_tensor(field.type)]
    return sum(math.prod(shape_of(kind)) * max(1, value_type(kind).bit_width // 8) for kind in tensors)


def to_arrow(values: npt.NDArray[Any]) -> Array:
    """Return a column with one row for each entry of the first dimension. A row is a scalar, or a tensor with the other dimensions."""
    shape = values.shape[1:]
    column: Array = _arrow.array(np.ascontiguousarray(values).reshape(-1))
    if shape:
        storage = pa.FixedSizeListArray.from_arrays(column, math.prod(shape))
        column = _arrow.ExtensionArray.from_storage(arrow_type(values.dtype.name, shape), storage)
    return column


def null_mask(column: Array) -> npt.NDArray[np.bool_]:
    """Return a mask of the rows that are null."""
    mask: npt.NDArray[np.bool_] = column.is_null().to_numpy(zero_copy_only=False)
    return mask


def masked(column: Array, missing: npt.NDArray[np.bool_]) -> Array:
    """Return a copy of a column that `to_arrow` made from numbers or tensors. In the copy, the masked rows are null."""
    if not is_tensor(column.type):
        nulls: Array = pc.if_else(_arrow.array(missing), pa.scalar(None, column.type), column)
        return nulls
    tensors: Any = column
    size = math.prod(shape_of(column.type))
    storage = _arrow.FixedSizeListArray.from_arrays(tensors.storage.values, size, mask=_arrow.array(missing))
    with_nulls: Array = _arrow.ExtensionArray.from_storage(column.type, storage)
    return with_nulls


def to_numpy(column: Array) -> npt.NDArray[Any]:
    """Return the numbers of a column without nulls. The first dimension has one entry per row. Only booleans are copied."""
    kind = column.type
    if isinstance(kind, pa.FixedShapeTensorType):
        if kind.permutation is not None and list(kind.permutation) != list(range(len(kind.shape))):
            array: Any = column
            return np.ascontiguousarray(array.to_numpy_ndarray())
        storage: Any = column
        return _values(storage.storage, math.prod(kind.shape)).reshape(len(column), *kind.shape)
    if pa.types.is_fixed_size_list(kind):
        size: int = kind.list_size
        return _values(column, size).reshape(len(column), size)
    return _flat(column)


def _values(column: Any, size: int) -> npt.NDArray[Any]:
    # `values` ignores the offset of a slice, so apply the offset here. `flatten` would drop the values under a null.
    return _flat(column.values.slice(column.offset * size, len(column) * size))


def _flat(column: Array) -> npt.NDArray[Any]:
    return column.to_numpy(zero_copy_only=not pa.types.is_boolean(column.type))


def binary(data: npt.NDArray[Any], offsets: npt.NDArray[np.int64]) -> Array:
    """Return a large_binary column whose rows are the parts of `data` between consecutive `offsets`. Nothing is copied."""
    column: Array = _arrow.Array.from_buffers(
        pa.large_binary(), len(offsets) - 1, [None, _arrow.py_buffer(offsets), _arrow.py_buffer(data)]
    )
    return column


def binary_data(column: Array) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]]:
    """Return the bytes of a large_binary column without nulls, and the offsets of its rows, without a copy."""
    _, ends, data = column.buffers()
    offsets = _view(ends, np.dtype(np.int64))[column.offset : column.offset + len(column) + 1]
    return _view(data, np.dtype(np.uint8)), offsets


def widened(column: Array) -> Array:
    """Convert a string or binary column without nulls to large_binary. Its bytes aren't copied."""
    if not len(column):
        return pa.array([], pa.large_binary())
    _, ends, data = column.buffers()
    offsets = _view(ends, np.dtype(np.int32))[column.offset : column.offset + len(column) + 1]
    return binary(_view(data, np.dtype(np.uint8)), offsets.astype(np.int64))


def _view(buffer: Any, dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    return np.frombuffer(buffer, dtype) if buffer is not None and buffer.size else np.empty(0, dtype)
