"""Finds columns by name or position, marks columns in their metadata, and converts the values of columns to numpy arrays."""

import difflib
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dataprep_converter.core.arrow_types import is_text
from dataprep_converter.core.errors import BadSpec
from dataprep_converter.core.lists import is_list, item_type, row_shape
from dataprep_converter.core.tensors import NUMPY_NAMES, Array, is_tensor, null_mask, pc, to_numpy
from dataprep_converter.records.batch import SAMPLE, TEXT, Batch, RejectedSample

NOT_BY_DEFAULT: Final[dict[str, str]] = {"default": "no"}
"""Metadata of a column whose values are written only if the spec names the column."""


IS_SEQUENCE: Final[dict[str, str]] = {"sequence": "yes"}
"""Metadata of a column whose lists are sequences. Each step is a value, a vector (fixed_size_list) or a list."""


IS_RECORD: Final[dict[str, str]] = {"record": "yes"}
"""Metadata of a column of bytes in which each value is a complete record.

If the column is the only feature, its records are written unchanged.
"""


AS_NUMBERS: Final[dict[str, str]] = {"numbers": "yes"}
"""Metadata of a column of numbers that a step has computed or might have changed.

The numbers in this column never become times or decimals again.
"""


_POSITION = re.compile(r"(-?\d+)(?:\.\.(-?\d+))?")


_SHOWN_COLUMNS = 20


def without(
    batch: Batch, faults: Mapping[int, str], samples: Array, places: Mapping[int, tuple[str, int | None]] = MappingProxyType({})
) -> Batch:
    """Returns the batch without the rows that `faults` lists. These rows become bad samples.

    `faults` maps each bad row to the reason, and `places` maps some of these rows to (column, step). `samples` contains the sample number
    of each row.
    """
    keep = np.ones(batch.records.num_rows, np.bool_)
    keep[list(faults)] = False
    numbers = to_numpy(samples)
    bad = []
    for row in sorted(faults):
        column, step = places.get(row, ("", None))
        bad.append(RejectedSample(sample=int(numbers[row]), reason=faults[row], column=column, step=step))
    return replace(batch, records=batch.records.filter(pa.array(keep)), bad=[*batch.bad, *bad])


def mark_numbers(field: "pa.Field[Any]") -> "pa.Field[Any]":
    """Returns the field with the mark AS_NUMBERS."""
    metadata: dict[Any, Any] = {**(field.metadata or {})}
    return field.with_metadata(metadata | AS_NUMBERS)


def are_numbers(field: "pa.Field[Any]") -> bool:
    """Returns whether the field has the mark AS_NUMBERS."""
    return (field.metadata or {}).get(b"numbers") == b"yes"


def find_columns(references: Sequence[str], schema: pa.Schema, *, of: str) -> list[str]:
    """Returns the names of the columns to which names or positions (`3`, `-1`, `0..4`) refer.

    A reference that equals a column's name is never interpreted as a position. Raises BadSpec, with a message that begins with the value of
    `of`.
    """
    if all(reference != SAMPLE and schema.get_field_index(reference) >= 0 for reference in references):
        return list(references)  # a shortcut for the usual case: a table can have ten thousand columns
    names = [name for name in schema.names if name != SAMPLE]
    return [name for reference in references for name in _resolve(reference, names, of)]


def similar(name: str, names: Sequence[str]) -> str:
    """Returns a question to append to a message, such as ` Did you mean 'label'?`. Returns the empty string if no name is similar."""
    close = difflib.get_close_matches(name, names, n=1, cutoff=0.6)
    return f" Did you mean {close[0]!r}?" if close else ""


def _resolve(reference: str, names: Sequence[str], of: str) -> list[str]:
    if reference in names:
        return [reference]
    position = _POSITION.fullmatch(reference)
    if reference == SAMPLE:
        raise BadSpec(f"{of}: no column can have the name {reference!r}, which is reserved; give the column another name in the source.")
    if position is None:
        raise BadSpec(f"{of}: there is no column {reference!r}.{similar(reference, names)} The columns are {format_names(names)}.")
    bounds = [int(bound) + (len(names) if bound.startswith("-") else 0) for bound in position.groups() if bound is not None]
    if not all(0 <= bound < len(names) for bound in bounds):
        raise BadSpec(f"{of}: there is no column at position {reference!r}. The {len(names)} columns are {format_names(names)}.")
    if bounds[-1] < bounds[0]:
        raise BadSpec(f"{of}: the range {reference!r} contains none of the {len(names)} columns. Write the smaller position first.")
    return list(names[bounds[0] : bounds[-1] + 1])


def format_names(names: Sequence[str]) -> str:
    """Returns the first few column names of a table, for use in a message."""
    more = f" … and {len(names) - _SHOWN_COLUMNS} more" if len(names) > _SHOWN_COLUMNS else ""
    return (", ".join(names[:_SHOWN_COLUMNS]) or "no columns") + more


NUMBER_TEXT: Final = "turn the text into numbers with the transform vocabulary"
"""The advice for users whose column is text although numbers are needed."""


def text_advice(kind: pa.DataType) -> str:
    """Returns the advice for a message that refuses a column because its type `kind` isn't numeric. Empty unless the type is text."""
    return f"; {NUMBER_TEXT}" if is_text(kind) else ""


def why_text(*fields: "pa.Field[Any]") -> str:
    """Returns the end of an error message, with the reason why columns are text where numbers were expected.

    Returns the empty string if no column's metadata gives a reason.
    """
    reasons = ((field.metadata or {})[TEXT.encode()] for field in fields if TEXT.encode() in (field.metadata or {}))
    return next((f" {reason.decode()}" for reason in reasons), "")


def numbers(column: Array) -> tuple[npt.NDArray[Any], npt.NDArray[np.int64]]:
    """Returns the values of a column of numbers, and the rows that have no value. The values of these rows are 0."""
    if not column.null_count:
        return to_numpy(column), np.empty(0, np.int64)
    missing = np.flatnonzero(null_mask(column))
    if is_tensor(column.type) or is_list(column.type):
        values = np.zeros((len(column), *row_shape(column.type)), NUMPY_NAMES[item_type(column.type)])
        valid = np.setdiff1d(np.arange(len(column)), missing)
        values[valid] = to_numpy(column.drop_null())
        return values, missing
    return to_numpy(pc.fill_null(column, pa.scalar(0).cast(column.type))), missing


def as_type(values: npt.NDArray[Any], dtype: str) -> tuple[npt.NDArray[Any], npt.NDArray[np.bool_]]:
    """Returns the values in another type, and a mask of the values that this type can't hold.

    The mask includes values that become infinite, but not values that are only rounded to a narrower float.
    """
    target = np.dtype(dtype)
    if np.can_cast(values.dtype, target, "safe"):
        return values.astype(target, copy=False), np.zeros(values.shape, np.bool_)
    if target.kind == "f":
        with np.errstate(over="ignore"):
            narrowed = values.astype(target)
        return narrowed, np.isinf(narrowed) & np.isfinite(values.astype(np.float64, copy=False))
    if target.kind == "b":
        wrong = (values != 0) & (values != 1)
    elif values.dtype.kind == "f":
        # Compare with the largest integer plus one, because float64 can represent that number, but not the largest int64 itself.
        limits = np.iinfo(target)
        wide = values.astype(np.float64, copy=False)
        wrong = ~((np.floor(wide) == wide) & (wide >= float(limits.min)) & (wide < float(limits.max + 1)))
    else:
        limits = np.iinfo(target)
        wrong = (values < limits.min) | (values > limits.max)
    return np.where(wrong, 0, values).astype(target), wrong


def first_of_each_row(values: npt.NDArray[Any], wrong: npt.NDArray[np.bool_]) -> list[tuple[int, Any]]:
    """Returns a pair (row, value) for each row with wrong values. The value is the row's first wrong value."""
    if not wrong.any():
        return []
    flat = wrong.reshape(len(wrong), -1)
    rows = np.flatnonzero(flat.any(axis=1))
    return [(int(row), values.reshape(len(values), -1)[row, flat[row].argmax()]) for row in rows]
