"""Turns NumPy arrays, and arrays of other libraries, into Arrow columns. The first dimension has one entry per record."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dataprep_converter.core.errors import BadData
from dataprep_converter.core.tensors import to_arrow
from dataprep_io.data.parameters import check_column_name

_BATCH_BYTES: Final = 8 << 20
_MOST_RECORDS: Final = 16_384
_arrow: Any = pa  # the stubs lack types that are known only at run time


# Any, because arrays of other libraries are only known by their attributes.
def is_array(values: Any) -> bool:
    """Returns whether this is an Arrow column, or an array of any library that NumPy understands.

    Tables are not arrays. They have no `dtype`, because each column has its own.
    """
    if isinstance(values, pa.Array | pa.ChunkedArray):
        return not pa.types.is_struct(values.type)
    return hasattr(values, "__array__") and hasattr(values, "dtype") and hasattr(values, "shape")


def as_numpy(values: Any) -> npt.NDArray[Any]:
    """Returns an array's values, with their mask.

    A torch tensor is detached from its graph and copied from its device; bfloat16, which NumPy lacks, becomes float32. Raises TypeError for
    other tensors that NumPy can't represent, and ValueError for values that aren't an array.
    """
    if type(values).__module__.partition(".")[0] == "torch":
        values = values.detach().cpu()
        if str(values.dtype) == "torch.bfloat16":
            values = values.float()
    return np.asanyarray(values) if isinstance(values, np.ma.MaskedArray) else np.asarray(values)


def column_of(values: npt.NDArray[Any]) -> Any:
    """Returns a column of numbers, tensors, strings, bytes or times.

    Masked values are null. Raises ArrowException for values of other types.
    """
    if isinstance(values, np.ma.MaskedArray):
        if not np.ma.is_masked(values):
            return column_of(values.data)
        if values.ndim > 1:
            raise pa.ArrowNotImplementedError("tensors with masked values")
        return _arrow.array(values.data.astype(values.dtype.newbyteorder("="), copy=False), mask=np.ma.getmaskarray(values))
    if values.dtype.kind in "biuf":
        return to_arrow(values.astype(values.dtype.newbyteorder("="), copy=False))
    if values.ndim > 1:
        raise pa.ArrowNotImplementedError(f"tensors of {values.dtype}")
    return _arrow.array(values)


def array_batches(arrays: Mapping[str, Any]) -> tuple[pa.Schema, Iterator[pa.RecordBatch], int]:
    """Returns the columns, the batches, and the number of bytes of these arrays. Nothing is copied before a batch is requested.

    Raises BadData for arrays of different lengths, and for values that a column can't contain.
    """
    for name in arrays:
        check_column_name(name, "The dictionary")
    columns = {name: _values(name, values) for name, values in arrays.items()}
    lengths = {name: len(values) for name, values in columns.items()}
    if len(set(lengths.values())) > 1:
        raise BadData(
            f"The arrays must have one entry per record, but have the lengths {', '.join(f'{n}: {k}' for n, k in lengths.items())}."
        )
    rows = next(iter(lengths.values()))
    size = sum(values.nbytes for values in columns.values())
    step = max(1, min(_MOST_RECORDS, _BATCH_BYTES * rows // max(1, size)))
    schema = pa.schema([(name, _column(name, values[:1]).type) for name, values in columns.items()])

    def batches() -> Iterator[pa.RecordBatch]:
        for first in range(0, rows, step):
            part = [_column(name, values[first : first + step], schema.field(name).type) for name, values in columns.items()]
            yield pa.RecordBatch.from_arrays(part, schema=schema)

    return schema, batches(), size


def _values(name: str, values: Any) -> Any:
    """Returns an array of numbers, or a column.

    Strings and objects are converted to a column immediately, because their type is known only after all values have been examined.
    """
    if hasattr(values, "__arrow_c_array__") or hasattr(values, "__arrow_c_stream__"):
        return _column(name, values)
    try:
        array = as_numpy(values)
    except TypeError as exc:
        raise BadData(f"The array {name!r} has values of {values.dtype}, which can't be a column: {exc}") from exc
    except ValueError as exc:
        raise BadData(f"NumPy can't make an array of {name!r}: {exc}") from exc
    if not array.ndim:
        raise BadData(f"The array {name!r} is a single value; expected one entry per record.")
    return array if array.dtype.kind in "biuf" else _column(name, array)


def _column(name: str, values: Any, kind: pa.DataType | None = None) -> Any:
    """Returns a column. Its type is `kind`, unless `kind` is None."""
    if isinstance(values, pa.Array):
        return values
    try:
        column = column_of(values) if isinstance(values, np.ndarray) else _of_arrow(values)
        return column if kind is None or column.type == kind else column.cast(kind)
    except (pa.ArrowException, KeyError) as exc:
        raise BadData(
            f"The array {name!r} has values of {getattr(values, 'dtype', type(values))}, which can't be a column: {exc}."
        ) from exc


def _of_arrow(values: Any) -> Any:
    """Returns the values of an object that implements Arrow's protocol, as one array."""
    if hasattr(values, "__arrow_c_array__"):
        return _arrow.array(values)
    column = _arrow.chunked_array(values)
    return column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)
