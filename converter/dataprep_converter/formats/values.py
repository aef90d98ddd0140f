"""Compare parsed records with the manifest's features, and convert the records back to columns.

In this module, a record is a mapping from features to values, as `registry.by_feature` returns it. The values are a flat list of ints,
floats or bytes. The values of a sequence are a list of such lists. A tensor stored as raw bytes is a single bytes value.
"""

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa

from dataprep_converter.core.tensors import Array, arrow_type, pc, to_arrow
from dataprep_converter.records.columns import IS_RECORD, IS_SEQUENCE

_arrow: Any = pa  # the type stubs don't cover lists whose types are known only at run time

Record = Mapping[str, Any]
Described = Mapping[str, Any]
"""A feature as the manifest describes it, with the fields of a FeatureSpec."""

_NUMBERS: Final = {"bytes": frozenset({bytes}), "float": frozenset({float, int}), "int": frozenset({int, bool})}


def fault(features: Sequence[Described], record: Record) -> str | None:
    """Describe how a record's names, kinds or shapes differ from those of the features. Return None if nothing differs."""
    names = {feature["name"] for feature in features}
    for name in record:
        if name not in names:
            return f"there is a feature {name!r}, which isn't in the manifest"
    for feature in features:
        if feature.get("record"):
            continue
        if feature["name"] not in record:
            if feature["shape"][:1] == [-1]:
                continue  # formats omit empty lists
            return f"the feature {feature['name']!r} is missing"
        wrong = _describe_fault(feature, record[feature["name"]])
        if wrong:
            return f"the feature {feature['name']!r} {wrong}"
    return None


def _describe_fault(feature: Described, values: Sequence[Any]) -> str | None:
    if not values:
        return None  # a null, or a list without items
    if not feature.get("sequence"):
        return _describe_values_fault(feature, feature["shape"], values)
    for number, step in enumerate(values):
        wrong = _describe_values_fault(feature, feature["shape"][1:], step if isinstance(step, list) else [step])
        if wrong:
            return f"{wrong} in step {number + 1}"
    return None


def _describe_values_fault(feature: Described, shape: Sequence[int], values: Sequence[Any]) -> str | None:
    dtype = feature["dtype"]
    expected = None if -1 in shape else math.prod(shape)
    kinds = set(map(type, values))
    kind = "bytes" if feature["raw"] or dtype == "bytes" else "float" if dtype.startswith("float") else "int"
    if not kinds <= _NUMBERS[kind]:
        return f"holds {', '.join(sorted(value_type.__name__ for value_type in kinds))}, expected {dtype}{' as bytes' if feature['raw'] else ''}"
    if feature["raw"]:
        size = math.prod(shape) * np.dtype(dtype).itemsize
        if len(values) != 1 or len(values[0]) != size:
            return f"has {sum(map(len, values))} bytes in {len(values)} values, expected {size} for {dtype}{list(shape)}"
        return None
    if expected is not None and len(values) != expected:
        return f"has {len(values):,} values, expected {expected:,}"
    if kind == "int" and values and dtype != "bool":
        limits = np.iinfo(dtype)
        beyond = next((value for value in (min(values), max(values)) if not limits.min <= value <= limits.max), None)
        if beyond is not None:
            return f"has the value {beyond}, which is outside the range of {dtype}"
    return None


# --- columns ------------------------------------------------------------------------------------------------------


def schema(features: Sequence[Described]) -> pa.Schema:
    """Return the schema of the features' columns. A sequence is a list of steps whose column is marked as a sequence."""
    return pa.schema([_field(feature) for feature in features])


def _field(feature: Described) -> "pa.Field[Any]":
    kind = _type(feature)
    marks = IS_RECORD if feature.get("record") else IS_SEQUENCE if feature.get("sequence") else None
    return pa.field(feature["name"], kind, metadata=marks)


def _type(feature: Described) -> pa.DataType:
    shape = feature["shape"]
    if not feature.get("sequence"):
        return _row_type(feature, shape)
    steps: pa.DataType = _arrow.large_list(_nest(_value_type(feature), shape[1:]))
    return steps


def _row_type(feature: Described, shape: Sequence[int]) -> pa.DataType:
    value = _value_type(feature)
    if shape and -1 not in shape and feature["dtype"] != "bytes":
        return arrow_type(feature["dtype"], tuple(shape))
    return _nest(value, shape)


def _value_type(feature: Described) -> pa.DataType:
    if feature["dtype"] == "bytes":
        return pa.large_string() if feature.get("text") else pa.large_binary()
    return arrow_type(feature["dtype"])


def _nest(value: pa.DataType, shape: Sequence[int]) -> pa.DataType:
    for size in reversed(shape):
        value = _arrow.large_list(value) if size == -1 else _arrow.list_(value, size)
    return value


def columns(features: Sequence[Described], records: Sequence[Record]) -> pa.RecordBatch:
    """Convert records to the columns of `schema`. `fault` must have returned None for each record."""
    batch_schema = schema(features)
    arrays = [_column(feature, [record.get(feature["name"], []) for record in records]) for feature in features]
    return pa.RecordBatch.from_arrays(arrays, schema=batch_schema)


def _column(feature: Described, rows: Sequence[Any]) -> Array:
    shape = feature["shape"]
    if not feature.get("sequence"):
        return _rows(feature, shape, rows)
    steps = list(itertools.chain.from_iterable(rows))
    inner = shape[1:]
    flat = _items(feature, [step if isinstance(step, list) else [step] for step in steps])
    if inner == [-1]:
        flat = _lists(flat, [len(step) for step in steps])
    else:
        for size in reversed(inner):
            flat = _arrow.FixedSizeListArray.from_arrays(flat, size)
    return _lists(flat, [len(row) for row in rows])


def _rows(feature: Described, shape: Sequence[int], rows: Sequence[Sequence[Any]]) -> Array:
    if -1 in shape:
        return _lists(_items(feature, rows), [len(row) for row in rows])
    missing = [not row for row in rows]
    if any(missing):
        nothing = _nothing(feature, shape)
        rows = [row or nothing for row in rows]
    mask = pa.array(missing) if any(missing) else None
    items = _items(feature, rows)
    if not shape:
        return pc.if_else(mask, pa.scalar(None, items.type), items) if mask is not None else items
    lists: Array = _arrow.FixedSizeListArray.from_arrays(items, math.prod(shape), mask=mask)
    if feature["dtype"] == "bytes":
        return lists
    tensors: Array = _arrow.ExtensionArray.from_storage(arrow_type(feature["dtype"], tuple(shape)), lists)
    return tensors


def _nothing(feature: Described, shape: Sequence[int]) -> list[Any]:
    """Return placeholder values for a row that the validity mask marks as null."""
    count = math.prod(shape)
    if feature["raw"]:
        return [bytes(count * np.dtype(feature["dtype"]).itemsize)]
    return [b"" if feature["dtype"] == "bytes" else 0] * count


def _items(feature: Described, rows: Iterable[Sequence[Any]]) -> Array:
    """Return all values of all rows as one flat array."""
    values = itertools.chain.from_iterable(rows)
    dtype = feature["dtype"]
    if dtype == "bytes":
        column: Array = _arrow.array(list(values), _value_type(feature))
        return column
    if feature["raw"]:
        return to_arrow(np.frombuffer(b"".join(values), np.dtype(dtype).newbyteorder("<")).astype(dtype, copy=False))
    return to_arrow(np.fromiter(values, dtype))


def _lists(items: Array, counts: Sequence[int]) -> Array:
    ends = np.concatenate((np.zeros(1, np.int64), np.cumsum(np.array(counts, np.int64))))
    lists: Array = _arrow.LargeListArray.from_arrays(to_arrow(ends), items)
    return lists
