"""The columns of foreign data sets: the forms of their values, and how the values of many samples become an Arrow column."""

import io
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias

import numpy as np
import pyarrow as pa

from dataprep_converter.core.errors import BadSample, BadSpec
from dataprep_converter.core.tensors import NUMPY_NAMES, Array, arrow_type, masked, to_arrow
from dataprep_converter.readers.base.files_ahead import binaries
from dataprep_converter.records.batch import SAMPLE

Form: TypeAlias = Literal["Bytes", "Text", "Number", "Tensor", "List"]

DTYPES: Final = frozenset(NUMPY_NAMES.values())
"""The numeric types that records can hold."""

_arrow: Any = pa  # the type stubs lack arrays from Python values of any type


@dataclass(frozen=True)
class ForeignColumn:
    """A column of a foreign data set."""

    name: str
    form: Form
    dtype: str = ""
    """The numeric type, for all forms except Bytes and Text."""
    shape: tuple[int, ...] = ()
    """The shape of each tensor."""

    @classmethod
    def of(cls, state: Mapping[str, Any]) -> "ForeignColumn":
        """The column that `state` describes."""
        return cls(state["name"], state["form"], state.get("dtype", ""), tuple(state.get("shape", ())))

    def state(self) -> dict[str, Any]:
        """The column as JSON values."""
        state: dict[str, Any] = {"name": self.name, "form": self.form}
        return state | ({"dtype": self.dtype} if self.dtype else {}) | ({"shape": list(self.shape)} if self.shape else {})

    def type(self) -> pa.DataType:
        """The type of the column."""
        if self.form == "Bytes":
            return pa.large_binary()
        if self.form == "Text":
            return pa.string()
        return pa.large_list(arrow_type(self.dtype)) if self.form == "List" else arrow_type(self.dtype, self.shape)

    def array(self, values: Sequence[Any]) -> Array:
        """The values of some samples as a column. A value that is None becomes a null."""
        is_missing = np.array([value is None for value in values], np.bool_)
        if self.form == "Bytes" and not is_missing.any():
            return binaries(values)
        if self.form in ("Bytes", "Text", "List"):
            column: Array = _arrow.array(list(values), self.type())
            return column
        empty = np.zeros(self.shape, self.dtype)
        stacked = np.empty((len(values), *self.shape), self.dtype)
        for row, value in enumerate(values):
            stacked[row] = empty if value is None else value
        numbers = to_arrow(stacked)
        return masked(numbers, is_missing) if is_missing.any() else numbers


def text_of(content: bytes) -> str:
    """Decodes UTF-8. Raises BadSample."""
    try:
        return content.decode()
    except UnicodeDecodeError as exc:
        raise BadSample(f"it is not UTF-8: {exc.reason} at byte {exc.start}") from exc


def whole_number(content: bytes) -> int:
    """Parses a whole number, which must fit into int64. Raises BadSample."""
    try:
        number = int(content)
    except ValueError as exc:
        raise BadSample(f"{content[:40].decode(errors='replace')!r} is not a whole number") from exc
    if not -(2**63) <= number < 2**63:
        raise BadSample(f"{number} doesn't fit into int64")
    return number


def array_of_npy(content: bytes) -> "np.ndarray[Any, Any]":
    """The array in a .npy file. Raises BadSample."""
    try:
        array: np.ndarray[Any, Any] = np.load(io.BytesIO(content), allow_pickle=False)
    except Exception as exc:  # NumPy parses the header as Python code, and can raise any error of Python's tokenizer, parser or zip library
        raise BadSample(f"it is not a .npy file of numbers: {' '.join(str(exc).split())}") from exc
    if not isinstance(array, np.ndarray) or array.dtype.name not in DTYPES:
        raise BadSample("it is not a .npy file of numbers")
    # Arrow has no big-endian numbers.
    return array.astype(array.dtype.newbyteorder("="), copy=False)


def form_of_arrays(name: str, arrays: "Sequence[np.ndarray[Any, Any]]") -> ForeignColumn | None:
    """The column for arrays that all have the same type, and that either have the same shape or are one-dimensional. None for other
    arrays."""
    dtypes, shapes = {array.dtype.name for array in arrays}, {array.shape for array in arrays}
    # A tensor can't be empty, so arrays that are all empty become lists.
    if len(dtypes) == len(shapes) == 1 and all(min(shapes)):
        return ForeignColumn(name, "Tensor", min(dtypes), min(shapes))
    is_ragged = len(dtypes) == 1 and all(len(shape) == 1 for shape in shapes)
    return ForeignColumn(name, "List", min(dtypes)) if is_ragged else None


def check_names(names: Sequence[str], *, uri: str) -> None:
    """Raises BadSpec for a name that occurs twice, or that is reserved for batches."""
    for name, count in Counter(names).items():
        if name == SAMPLE or count > 1:
            reason = "has a reserved name" if name == SAMPLE else "occurs twice"
            raise BadSpec(f"{uri}: the column {name!r} {reason}.", uri=uri)


def checked_array(array: "np.ndarray[Any, Any]", column: ForeignColumn) -> "np.ndarray[Any, Any]":
    """Returns the array. Raises BadSample if the array doesn't have the column's type and shape."""
    if array.dtype.name != column.dtype:
        raise BadSample(f"it is {array.dtype.name}, expected {column.dtype}")
    if column.form == "List" and array.ndim != 1:
        raise BadSample(f"it has {array.ndim} dimensions, expected 1")
    if column.form != "List" and array.shape != column.shape:
        raise BadSample(f"it has the shape {list(array.shape)}, expected {list(column.shape)}")
    return array
