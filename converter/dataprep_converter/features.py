"""Features: which columns become which feature of the records, and in what type. Pure: a spec and a schema in, a projector out.

Everything that can be known without data is decided, and refused, once by `resolve`; `Projector.project` then only checks values.
"""

import difflib
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dataprep_api.spec import Feature, LabelFeature
from dataprep_converter.encoders import FeatureSpec
from dataprep_converter.errors import BadSpec
from dataprep_converter.readers import SAMPLE, Bad, Batch
from dataprep_converter.tensors import NUMPY_NAMES, Array, is_tensor, kernels, shape_of, to_arrow, to_numpy, value_type

NOT_BY_DEFAULT: Final[dict[str, str]] = {"default": "no"}
"""Metadata of a column that is written only when the spec names it."""

_POSITION = re.compile(r"(-?\d+)(?:\.\.(-?\d+))?")
_SHOWN_COLUMNS = 20


@dataclass(frozen=True)
class _Mapping:
    """One feature and where it comes from."""

    feature: FeatureSpec
    columns: tuple[str, ...]
    num_classes: int | None = None


class Projector:
    """Turns batches of the last transform's columns into batches of exactly the features, in the byte order of their names."""

    def __init__(self, mappings: Sequence[_Mapping], warnings: Sequence[str]) -> None:
        self._mappings = sorted(mappings, key=lambda mapping: mapping.feature.name.encode())
        self.features: list[FeatureSpec] = [mapping.feature for mapping in self._mappings]
        self.sources: dict[str, str] = {m.feature.name: m.columns[0] for m in self._mappings if len(m.columns) == 1}
        """Column by feature, for the features made of a single one."""
        self.warnings: list[str] = list(warnings)
        """What a user would want to know before the first record is written."""

    def project(self, batch: Batch) -> Batch:
        """The batch with a column for each feature and no other; samples with a value that doesn't fit move to `bad`."""
        columns: list[Array] = []
        faults: dict[int, str] = {}
        for mapping in self._mappings:
            column, found = _projected(mapping, batch.records)
            columns.append(column)
            for row, reason in found.items():
                faults.setdefault(row, reason)
        records = pa.RecordBatch.from_arrays(columns, names=[feature.name for feature in self.features])
        if not faults:
            return Batch(records=records, bad=batch.bad, bytes_in=batch.bytes_in)
        return without(Batch(records=records, bad=batch.bad, bytes_in=batch.bytes_in), faults, batch.records.column(SAMPLE))


def without(batch: Batch, faults: Mapping[int, str], samples: Array) -> Batch:
    """The batch less the rows in `faults` (row → reason), which become bad samples; `samples` has the rows' sample numbers."""
    kept = np.ones(batch.records.num_rows, np.bool_)
    kept[list(faults)] = False
    numbers = to_numpy(samples)
    bad = [Bad(sample=int(numbers[row]), reason=faults[row]) for row in sorted(faults)]
    return Batch(records=batch.records.filter(pa.array(kept)), bad=[*batch.bad, *bad], bytes_in=batch.bytes_in)


def resolve(
    features: Sequence[Feature] | None,
    labels: Sequence[LabelFeature] | None,
    *,
    schema: pa.Schema,
    default_label: str,
) -> Projector:
    """The projector for a spec and the columns that there are.

    Without `labels`, the column `default_label` is the label when it is there and no feature uses it. Without `features`, every
    column is one that is no label and is not left out by default. Raises BadSpec, naming feature and column, for what can't be.
    """
    names = [name for name in schema.names if name != SAMPLE]
    schema = pa.schema([schema.field(name) for name in names])
    warnings: list[str] = []
    given = [_mapping(feature, schema, warnings) for feature in features or []]
    used = {column for mapping in given for column in mapping.columns} | {mapping.feature.name for mapping in given}
    if labels is None and default_label in names and default_label not in used:
        labels = [LabelFeature(name=default_label)]
    targets = [_mapping(label, schema, warnings) for label in labels or []]
    if features is None:
        taken = {column for mapping in targets for column in mapping.columns}
        wanted = [name for name in names if name not in taken and not _left_out(schema.field(name))]
        given = [_mapping(Feature(name=name), schema, warnings) for name in wanted]
    mappings = [*given, *targets]
    if not mappings:
        raise BadSpec(f"There is nothing to write: the source has {_listed(names)}, and none is a feature or a label.")
    for name in sorted({m.feature.name for m in given} & {m.feature.name for m in targets}):
        raise BadSpec(f"The feature {name!r} is also a label; list the features, or give the label another name.")
    return Projector(mappings, warnings)


def find_columns(references: Sequence[str], schema: pa.Schema, *, of: str) -> list[str]:
    """Column names behind names and positions (`3`, `-1`, `0..4`; a name goes first). Raises BadSpec naming `of`."""
    names = [name for name in schema.names if name != SAMPLE]
    return [name for reference in references for name in _named(reference, names, of)]


# --- deciding -----------------------------------------------------------------------------------------------------


def _named(reference: str, names: Sequence[str], of: str) -> list[str]:
    if reference in names:
        return [reference]
    position = _POSITION.fullmatch(reference)
    if position is None:
        close = difflib.get_close_matches(reference, names, n=1, cutoff=0.6)
        hint = f" Did you mean {close[0]!r}?" if close else ""
        raise BadSpec(f"{of}: there is no column {reference!r}.{hint} The columns are {_listed(names)}.")
    bounds = [int(bound) + (len(names) if bound.startswith("-") else 0) for bound in position.groups() if bound is not None]
    if not all(0 <= bound < len(names) for bound in bounds):
        raise BadSpec(f"{of}: {reference!r} is outside the {len(names)} columns: {_listed(names)}.")
    if bounds[-1] < bounds[0]:
        raise BadSpec(f"{of}: the range {reference!r} of the {len(names)} columns is empty.")
    return list(names[bounds[0] : bounds[-1] + 1])


def _listed(names: Sequence[str]) -> str:
    more = f" … and {len(names) - _SHOWN_COLUMNS} more" if len(names) > _SHOWN_COLUMNS else ""
    return (", ".join(names[:_SHOWN_COLUMNS]) or "no columns") + more


def _left_out(field: "pa.Field[Any]") -> bool:
    return (field.metadata or {}).get(b"default") == b"no"


def _mapping(feature: Feature, schema: pa.Schema, warnings: list[str]) -> _Mapping:
    """The decision about one feature."""
    of = f"The feature {feature.name!r}"
    references = feature.columns or [feature.name]
    columns = find_columns(references, schema, of=of)
    is_vector = len(columns) > 1 or (references[0] not in schema.names and ".." in references[0])
    kinds = [schema.field(column).type for column in columns]
    own = [_dtype(kind, column, of) for kind, column in zip(kinds, columns, strict=True)]
    shape: tuple[int, ...]
    if is_vector:
        shape = (sum(_size(kind, column, of) for kind, column in zip(kinds, columns, strict=True)),)
    else:
        shape = (-1,) if _is_ragged(kinds[0]) else shape_of(kinds[0])
    num_classes = feature.num_classes if isinstance(feature, LabelFeature) else None
    dtype = feature.dtype or _common(own, columns, of)
    if num_classes is not None:
        dtype, num_classes = _class_dtype(dtype, shape, num_classes, chosen=feature.dtype is not None, of=of)
    if "bytes" in (dtype, *own):
        if {dtype, *own} != {"bytes"}:
            advice = "give it encoding: Raw for its bytes" if dtype == "bytes" else "give the column a type of numbers in the source"
            raise BadSpec(f"{of}: {_listed(columns)} can't become {dtype}; {advice}.")
        return _Mapping(FeatureSpec(feature.name, "bytes", "bytes", shape, label=isinstance(feature, LabelFeature)), tuple(columns))
    raw = feature.encoding == "Raw" or (feature.encoding == "Auto" and bool(shape) and _is_small_integer(dtype))
    if raw and shape == (-1,):
        raise BadSpec(f"{of}: rows of different lengths can't be stored Raw, because nothing would tell their shape.")
    if shape == (-1,) and dtype != own[0]:
        raise BadSpec(f"{of}: the lists of {columns[0]} can't be converted from {own[0]} to {dtype}.")
    if dtype == "float64" and not raw and shape != (-1,):
        warnings.append(
            f"{of[:1].lower()}{of[1:]} is stored as float32, the only float of a list in tf.train.Example; encoding: Raw keeps float64."
        )
        dtype = "float32"
    kind = "bytes" if raw else "float" if dtype.startswith("float") else "int64"
    label = isinstance(feature, LabelFeature)
    return _Mapping(FeatureSpec(feature.name, kind, dtype, shape, raw=raw, label=label), tuple(columns), num_classes)


def _dtype(kind: pa.DataType, column: str, of: str) -> str:
    """numpy's name of a column's values, or `bytes`."""
    value: Any = value_type(kind)
    if isinstance(value, pa.DictionaryType) or _is_ragged(value):
        value = value.value_type
    if value in NUMPY_NAMES:
        return NUMPY_NAMES[value]
    types = pa.types
    if any(is_text(value) for is_text in (types.is_string, types.is_large_string, types.is_binary, types.is_large_binary)):
        return "bytes"
    raise BadSpec(f"{of}: the column {column!r} is {kind}, which records can't hold.")


def _is_ragged(kind: pa.DataType) -> bool:
    return pa.types.is_list(kind) or pa.types.is_large_list(kind)


def _size(kind: pa.DataType, column: str, of: str) -> int:
    """How many values of a vector one row of a column gives."""
    if _is_ragged(kind):
        raise BadSpec(f"{of}: the column {column!r} has lists of different lengths, so it can't be one part of a vector.")
    return int(np.prod(shape_of(kind)))


def _common(own: Sequence[str], columns: Sequence[str], of: str) -> str:
    if len(set(own)) == 1:
        return own[0]
    if "bytes" in own:
        raise BadSpec(f"{of}: text and numbers can't share a vector: {_listed([f'{c} ({d})' for c, d in zip(columns, own, strict=True)])}.")
    return str(np.result_type(*own).name)


def _class_dtype(dtype: str, shape: tuple[int, ...], num_classes: int, *, chosen: bool, of: str) -> tuple[str, int | None]:
    """Type of a label of `num_classes` classes, and the number to check: none when it is a one-hot vector already."""
    if dtype.startswith("float") and shape == (num_classes,):
        return dtype, None
    if dtype == "bytes" or (chosen and dtype.startswith("float")):
        raise BadSpec(f"{of}: numClasses needs whole numbers, but it is {dtype}.")
    # The classes of a column such as `1.0` are whole numbers all the same; any other value is a bad record.
    return ("int64", num_classes) if dtype.startswith("float") else (dtype, num_classes)


def _is_small_integer(dtype: str) -> bool:
    return np.issubdtype(np.dtype(dtype), np.integer) and np.dtype(dtype).itemsize < 8


# --- doing --------------------------------------------------------------------------------------------------------


def _projected(mapping: _Mapping, records: pa.RecordBatch) -> tuple[Array, dict[int, str]]:
    """The feature's column and the rows whose values don't fit, with the reason."""
    feature = mapping.feature
    columns = [records.column(name) for name in mapping.columns]
    if feature.dtype == "bytes":
        return (columns[0] if len(columns) == 1 else _text_vectors(columns)), {}
    if len(columns) == 1 and mapping.num_classes is None and (feature.shape == (-1,) or _is_as_wanted(columns[0], feature)):
        return columns[0], {}
    faults: dict[int, str] = {}
    parts: list[npt.NDArray[Any]] = []
    for column, name in zip(columns, mapping.columns, strict=True):
        values, missing = numbers(column)
        faults |= {int(row): f"{name} has no value" for row in missing}
        parts.append(values)
    rows = records.num_rows
    values = np.concatenate([part.reshape(rows, math.prod(part.shape[1:])) for part in parts], axis=1).reshape(rows, *feature.shape)
    converted, wrong = _converted(values, feature.dtype)
    for row, value in _first_of_each_row(values, wrong):
        faults.setdefault(row, f"{feature.name} {value} does not fit {feature.dtype}")
    if mapping.num_classes is not None:
        for row, value in _first_of_each_row(converted, (converted < 0) | (converted >= mapping.num_classes)):
            faults.setdefault(row, f"{feature.name} {value} is outside 0..{mapping.num_classes - 1}")
    return to_arrow(converted), faults


def _is_as_wanted(column: Array, feature: FeatureSpec) -> bool:
    return NUMPY_NAMES.get(value_type(column.type)) == feature.dtype and shape_of(column.type) == feature.shape


def numbers(column: Array) -> tuple[npt.NDArray[Any], npt.NDArray[np.int64]]:
    """The values of a column of numbers, and the rows that have none (0 stands in for them)."""
    if not column.null_count:
        return to_numpy(column), np.empty(0, np.int64)
    missing = np.flatnonzero(column.is_null().to_numpy(zero_copy_only=False))
    if is_tensor(column.type):
        shape = shape_of(column.type)
        values = np.zeros((len(column), *shape), NUMPY_NAMES[value_type(column.type)])
        valid = np.setdiff1d(np.arange(len(column)), missing)
        values[valid] = to_numpy(column.drop_null())
        return values, missing
    return to_numpy(kernels.fill_null(column, pa.scalar(0).cast(column.type))), missing


def _converted(values: npt.NDArray[Any], dtype: str) -> tuple[npt.NDArray[Any], npt.NDArray[np.bool_]]:
    """The values in another type, and which of them it can't hold. Rounding to a narrower float is no fault, becoming infinite is."""
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
        # The largest int64 is no float64, but the number after it is.
        limits = np.iinfo(target)
        wide = values.astype(np.float64, copy=False)
        wrong = ~((np.floor(wide) == wide) & (wide >= float(limits.min)) & (wide < float(limits.max + 1)))
    else:
        limits = np.iinfo(target)
        wrong = (values < limits.min) | (values > limits.max)
    return np.where(wrong, 0, values).astype(target), wrong


def _first_of_each_row(values: npt.NDArray[Any], wrong: npt.NDArray[np.bool_]) -> list[tuple[int, Any]]:
    if not wrong.any():
        return []
    flat = wrong.reshape(len(wrong), -1)
    rows = np.flatnonzero(flat.any(axis=1))
    return [(int(row), values.reshape(len(values), -1)[row, flat[row].argmax()]) for row in rows]


def _text_vectors(columns: Sequence[Array]) -> Array:
    """Several columns of text as one column of lists, each as long as there are columns."""
    rows, size = len(columns[0]), len(columns)
    cast: Any = pa.concat_arrays([column.cast(pa.large_binary()) for column in columns])
    order = np.arange(rows * size).reshape(size, rows).T.ravel()
    lists: Array = pa.FixedSizeListArray.from_arrays(cast.take(order), size)
    return lists
