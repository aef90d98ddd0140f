"""Resolves which columns become which features of the records, and which types these features have.

This module is pure: it takes a spec and a schema, and returns a projector. `resolve` decides and checks, once, everything that doesn't
depend on data. So `Projector.project` only has to check values.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dataprep_api.dataset.report import Lossy
from dataprep_api.dataset.run_id import NullRule
from dataprep_api.spec import Feature, LabelFeature, Output
from dataprep_converter.core.arrow_types import is_text, is_text_or_bytes
from dataprep_converter.core.errors import BadSpec
from dataprep_converter.core.lists import flatten_lists, item_type, put_together, row_shape
from dataprep_converter.core.tensors import NUMPY_NAMES, Array, is_tensor, masked, null_mask, to_arrow, to_numpy
from dataprep_converter.formats.nested.descriptions import nested_type
from dataprep_converter.formats.registry import encoder_class
from dataprep_converter.pipeline.kept_types import KeptColumn, KeptTypes, original
from dataprep_converter.pipeline.nulls import Defaults, Nulls, fault_of_empty_record, nulls_of
from dataprep_converter.records.batch import KEPT, SAMPLE, Batch
from dataprep_converter.records.columns import (
    NUMBER_TEXT,
    as_type,
    find_columns,
    first_of_each_row,
    format_names,
    numbers,
    why_text,
    without,
)
from dataprep_converter.records.feature import DtypeSupport, FeatureSpec
from dataprep_converter.records.kept_types import kept_name, time_text
from dataprep_converter.records.lossy import InexactIntegers, format_example, inexact

_SHOWN_FEATURES = 5
_NO_DEFAULTS: Final = Defaults()


@dataclass(frozen=True)
class _Mapping:
    """A feature and the columns that it is made from."""

    feature: FeatureSpec
    columns: tuple[str, ...]
    num_classes: int | None = None
    narrowed: bool = False
    """Whether the feature is stored as float32, although the spec or a column's type makes it a float64."""
    nulls: Nulls | None = None
    """How nulls are handled. None means version 1 of the part `nulls`: a null stays a null only if the feature needs no conversion."""
    kept_from: "pa.Field[Any] | None" = None
    """If the feature keeps its type: the reader's column, and the type that the column had in the input."""


@dataclass(frozen=True)
class _Origin:
    """The type that a column's values had in the input."""

    feature: str
    column: str
    """The column's name after the transforms."""
    source_column: str
    """The column's name in the reader's output."""
    type: pa.DataType


class Projector:
    """Turns batches of the last transform's columns into batches that contain exactly the features, ordered by the bytes of their names.

    The features are followed by additional columns for the features that keep their types (`records/kept_types.py`).
    """

    def __init__(
        self, mappings: Sequence[_Mapping], warnings: Sequence[str], origins: Sequence[_Origin] = (), *, empty_is_bad: str | None = None
    ) -> None:
        """If all nullable features of a record are null, the record is bad for the reason `empty_is_bad`, unless this is None."""
        self._mappings = sorted(mappings, key=lambda mapping: mapping.feature.name.encode())
        self._empty_is_bad = empty_is_bad
        self.features: list[FeatureSpec] = [mapping.feature for mapping in self._mappings]
        self.sources: dict[str, str] = {m.feature.name: m.columns[0] for m in self._mappings if len(m.columns) == 1}
        """Maps each feature that is made from a single column to that column."""
        self.warnings: list[str] = list(warnings)
        """Warnings to show the user before the first record is written."""
        self._kept = [
            KeptColumn(each.columns[0], place, each.kept_from, each.feature.kept)
            for place, each in enumerate(self._mappings)
            if each.kept_from is not None and each.feature.kept is not None
        ]
        self._times = [origin for origin in origins if pa.types.is_temporal(origin.type)]
        self._decimals = [origin for origin in origins if not pa.types.is_temporal(origin.type)]
        self._fitting: list[pa.DataType | None] = [None] * len(self._mappings)
        """For each feature, the last column type that needed no conversion."""

    def project(self, batch: Batch) -> Batch:
        """Projects a batch onto the features. Samples with a value that doesn't fit are moved to `bad`."""
        columns: list[Array] = []
        integers: list[tuple[FeatureSpec, InexactIntegers]] = []
        faults: dict[int, str] = {}
        places: dict[int, tuple[str, int | None]] = {}
        missing: dict[str, int] = {}
        for place, mapping in enumerate(self._mappings):
            inputs = [batch.records.column(name) for name in mapping.columns]
            nulls = mapping.nulls if any(column.null_count for column in inputs) else None
            if nulls is not None and nulls.why:
                missing |= {name: each.null_count for name, each in zip(mapping.columns, inputs, strict=True) if each.null_count}
            if self._fits(place, inputs) and nulls is None:
                columns.append(inputs[0])
                continue
            projected = _project(mapping, inputs) if nulls is None else _project_with_nulls(mapping, inputs, nulls)
            integers += [(mapping.feature, each) for each in projected.inexact]
            columns.append(projected.column)
            for row, reason in projected.faults.items():
                faults.setdefault(row, reason)
                places.setdefault(row, (mapping.columns[0], projected.steps.get(row)))
        names = [feature.name for feature in self.features]
        for kept in self._kept:
            values, wrong = kept.values(columns[kept.place], batch)
            names.append(kept_name(names[kept.place]))
            columns.append(values)
            for row, reason in wrong.items():
                faults.setdefault(row, reason)
                places.setdefault(row, (kept.column, None))
        if self._empty_is_bad is not None:
            faults |= dict.fromkeys(self._empty_rows(columns[: len(self._mappings)]), self._empty_is_bad)
        records = pa.RecordBatch.from_arrays(columns, names=names)
        lossy = [*_lossy_integers(integers, faults), *self._lossy_decimals(batch, faults), *self._lossy_times(batch, faults)]
        projected_batch = replace(batch, records=records, lossy=lossy, lost=(), missing=missing)
        return without(projected_batch, faults, batch.records.column(SAMPLE), places) if faults else projected_batch

    def _empty_rows(self, columns: Sequence[Array]) -> list[int]:
        """Returns the rows in which all nullable features are null."""
        nullable = [
            column for column, mapping in zip(columns, self._mappings, strict=True) if mapping.nulls is not None and mapping.nulls.held
        ]
        if not nullable or not all(column.null_count for column in nullable):
            return []
        rows: list[int] = np.flatnonzero(np.logical_and.reduce([null_mask(column) for column in nullable])).tolist()
        return rows

    def _lossy_decimals(self, batch: Batch, faults: Mapping[int, str]) -> Iterator[Lossy]:
        if not batch.lost:
            return
        samples = to_numpy(batch.records.column(SAMPLE))
        good_rows = np.setdiff1d(np.arange(len(samples)), list(faults)) if faults else np.arange(len(samples))
        for lost in batch.lost:
            texts = dict(zip(lost.samples.tolist(), lost.texts, strict=True))
            rows = good_rows[np.isin(samples[good_rows], lost.samples)]
            for origin in self._decimals if len(rows) else ():
                if origin.source_column == lost.column:
                    first = int(rows[0])
                    text = texts[int(samples[first])]
                    # In a column of lists, `text` can be the text of any value in the row's list.
                    stored_text = repr(float(text))
                    yield _describe_loss(origin.feature, origin.column, "Decimal", "float64", len(rows), text, stored_text)

    def _lossy_times(self, batch: Batch, faults: Mapping[int, str]) -> Iterator[Lossy]:
        is_good = np.ones(batch.records.num_rows, np.bool_)
        is_good[list(faults)] = False
        for origin in self._times:
            column = batch.records.column(origin.column)
            rows = np.flatnonzero(is_good & ~null_mask(column)) if column.null_count else np.flatnonzero(is_good)
            if not len(rows):
                continue
            value: Any = column[int(rows[0])]
            number = value.as_py()
            if isinstance(number, list):
                number = next(iter(number), None)
            yield _describe_loss(origin.feature, origin.column, "Time", str(origin.type), len(rows), time_text(number, origin.type), number)

    def _fits(self, place: int, columns: Sequence[Array]) -> bool:
        """Whether a column can be used without conversion.

        This depends only on the column's type, which seldom changes from batch to batch.
        """
        kind = columns[0].type
        if kind != self._fitting[place]:
            self._fitting[place] = kind if _is_as_it_is(self._mappings[place], kind) else None
        return self._fitting[place] is not None


def resolve(
    features: Sequence[Feature] | None,
    labels: Sequence[LabelFeature] | None,
    *,
    schema: pa.Schema,
    default_label: str,
    output: Output | None = None,
    nulls: NullRule = "Keep",
    defaults: Defaults = _NO_DEFAULTS,
    kept: KeptTypes | None = None,
) -> Projector:
    """Returns the projector for a spec and the available columns.

    Without `labels`, the column `default_label` is the label if it exists and no feature uses it. Without `features`, each column is a
    feature, except labels and columns that are left out by default. Without `output`, the format is `tfrecord`. If a feature can't be
    resolved, raises BadSpec naming the feature and the column.

    Messages about nulls use `defaults`, the defaults that the source's columns can have. `kept` says which times and decimals keep their
    types. If `kept` is None, all times and decimals are written as numbers.
    """
    output = output or Output(uri="out")
    names = [name for name in schema.names if name != SAMPLE]
    schema = pa.schema([schema.field(name) for name in names])
    feature_mappings = [_mapping(feature, schema, output, kept) for feature in features or []]
    used_names = {column for mapping in feature_mappings for column in mapping.columns} | {
        mapping.feature.name for mapping in feature_mappings
    }
    if labels is None and default_label in names and default_label not in used_names:
        labels = [LabelFeature(name=default_label)]
    targets = [_mapping(label, schema, output, kept) for label in labels or []]
    if features is None:
        label_columns = {column for mapping in targets for column in mapping.columns}
        feature_columns = [name for name in names if name not in label_columns and not _is_left_out(schema.field(name))]
        feature_mappings = [_mapping(Feature(name=name), schema, output, kept) for name in feature_columns]
    mappings = [replace(m, feature=replace(m.feature, place=place)) for place, m in enumerate([*feature_mappings, *targets])]
    feature_names = {mapping.feature.name for mapping in mappings}
    for mapping in mappings:
        if mapping.kept_from is not None and kept_name(mapping.feature.name) in feature_names:
            raise BadSpec(f"The feature {kept_name(mapping.feature.name)!r} has a reserved name; give it another name, or leave it out.")
    if not mappings:
        raise BadSpec(
            f"There is nothing to write: the source has the columns {format_names(names)}, but none of them is a feature or a label."
        )
    if len(mappings) == 1 and len(mappings[0].columns) == 1 and _has_mark(schema.field(mappings[0].columns[0]), "record"):
        mappings = [replace(mappings[0], feature=replace(mappings[0].feature, record=True))]
    for place, mapping in enumerate(mappings):
        is_vector = _is_vector(mapping, schema)
        feature_nulls = nulls_of(mapping.feature, is_vector=is_vector, output=output, rule=nulls, defaults=defaults)
        mappings[place] = replace(mapping, nulls=feature_nulls)
    for name in sorted({m.feature.name for m in feature_mappings} & {m.feature.name for m in targets}):
        raise BadSpec(f"The feature {name!r} is also a label; list the features, or give the label another name.")
    return Projector(
        mappings,
        list(_float64_warnings(mappings, output)),
        _origins(mappings, schema),
        empty_is_bad=fault_of_empty_record(output, nulls),
    )


# --- deciding -----------------------------------------------------------------------------------------------------


def _is_vector(mapping: _Mapping, schema: pa.Schema) -> bool:
    """Whether the feature is a vector assembled from column values."""
    feature = mapping.feature
    is_the_column = feature.sequence or feature.shape == row_shape(schema.field(mapping.columns[0]).type)
    return len(mapping.columns) > 1 or not is_the_column


def _is_left_out(field: "pa.Field[Any]") -> bool:
    return _has_mark(field, "default", "no")


def _has_mark(field: "pa.Field[Any]", key: str, value: str = "yes") -> bool:
    """Whether the reader has set the mark `key` to `value` in a column's metadata."""
    return (field.metadata or {}).get(key.encode()) == value.encode()


def _mapping(feature: Feature, schema: pa.Schema, output: Output, kept: KeptTypes | None) -> _Mapping:
    """Decides the type, shape and columns of one feature."""
    of = f"The feature {feature.name!r}"
    references = feature.columns or [feature.name]
    columns = find_columns(references, schema, of=of)
    fields = [schema.field(column) for column in columns]
    sequence = _is_sequence(feature, fields, of)
    dtypes = [_dtype(field, of) for field in fields]
    # The shape of a row, or of one step of a sequence.
    shapes = [row_shape(field.type)[sequence:] for field in fields]
    is_vector = len(columns) > 1 or (".." in references[0] and references[0] not in schema.names)
    shape = (sum(_size(shape, column, of) for shape, column in zip(shapes, columns, strict=True)),) if is_vector else shapes[0]
    if -1 in shape and len(shape) > 1:
        advice = "" if sequence else " Set sequence: true if they are the steps of a sequence."
        raise BadSpec(f"{of}: the column {columns[0]!r} is {fields[0].type}: records can't contain lists of lists.{advice}")
    label = isinstance(feature, LabelFeature)
    num_classes = feature.num_classes if isinstance(feature, LabelFeature) else None
    dtype = feature.dtype or _common_dtype(dtypes, fields, of)
    if num_classes is not None:
        dtype, num_classes = _class_dtype(dtype, shape, num_classes, chosen=feature.dtype is not None, of=of, why=why_text(*fields))
    if "bytes" in (dtype, *dtypes) and {dtype, *dtypes} != {"bytes"}:
        advice = (
            "set encoding: Raw to store its bytes"
            if dtype == "bytes"
            else f"{NUMBER_TEXT}, or give the column a type of numbers in the source"
        )
        raise BadSpec(f"{of}: {format_names(columns)} can't become {dtype}; {advice}.{why_text(*fields)}")
    support = encoder_class(output.format).numbers(output)
    raw = dtype != "bytes" and _is_raw(feature, dtype, shape, support, of=of, format_=output.format)
    if raw and shape == (-1,):
        what = "steps" if sequence else "rows"
        raise BadSpec(f"{of}: {what} of different lengths can't be stored Raw, because their shape would be lost.")
    if dtype != "bytes" and not raw:
        dtype = _stored_dtype(feature, dtype, support, of=of, format_=output.format)
    kind = "bytes" if raw or dtype == "bytes" else "float" if dtype.startswith("float") else "int64"
    full_shape = (-1, *shape) if sequence else shape
    text = all(is_text(item_type(field.type)) for field in fields)
    nested = nested_type(fields[0]) if len(fields) == 1 else None
    is_free = kept is not None and not is_vector and num_classes is None and feature.dtype is None
    kept_type = kept.type_of(fields[0]) if kept is not None and is_free else None
    spec = FeatureSpec(
        feature.name, kind, dtype, full_shape, raw=raw, label=label, sequence=sequence, text=text, nested=nested, kept=kept_type
    )
    is_float64 = "float64" in dtypes if feature.dtype is None else feature.dtype == "float64"
    kept_from = None if kept_type is None else original(fields[0], KEPT)
    return _Mapping(spec, tuple(columns), num_classes, narrowed=is_float64 and spec.dtype == "float32", kept_from=kept_from)


def _is_raw(feature: Feature, dtype: str, shape: tuple[int, ...], support: DtypeSupport, *, of: str, format_: str) -> bool:
    if feature.encoding == "Raw" and not support.raw:
        raise BadSpec(f"{of}: encoding: Raw is for tfrecord; {format_} keeps type and shape as they are.")
    return support.raw and (feature.encoding == "Raw" or (feature.encoding == "Auto" and _is_raw_by_default(dtype, shape)))


def _stored_dtype(feature: Feature, dtype: str, support: DtypeSupport, *, of: str, format_: str) -> str:
    """Returns the type in which the format stores numbers of type `dtype`."""
    if support.raw and dtype == "float64":
        return "float32"
    if feature.name in support.as_they_are:
        return dtype
    if feature.dtype is None:
        return support.unasked.get(dtype, dtype)
    if support.held is not None and dtype not in support.held:
        raise BadSpec(f"{of}: {format_} can't store {dtype}; it supports {', '.join(sorted(support.held))}.")
    return dtype


def _is_sequence(feature: Feature, fields: Sequence["pa.Field[Any]"], of: str) -> bool:
    """Whether the feature is a sequence, as set in the spec or, if the spec doesn't set it, by the source."""
    marked = [_has_mark(field, "sequence") for field in fields]
    if feature.sequence is None and any(marked) and not all(marked):
        raise BadSpec(
            f"{of}: {fields[marked.index(False)].name!r} isn't a sequence, so it can't share a vector with {fields[marked.index(True)].name!r}."
        )
    if not (marked[0] if feature.sequence is None else feature.sequence):
        return False
    for column in fields:
        if not row_shape(column.type):
            raise BadSpec(f"{of}: the column {column.name!r} is {column.type}, but a sequence must be a column of lists or tensors.")
    return True


def _dtype(field: "pa.Field[Any]", of: str) -> str:
    """Returns numpy's name for the type of a column's values, or `bytes`."""
    value = item_type(field.type)
    if value in NUMPY_NAMES:
        return NUMPY_NAMES[value]
    if is_text_or_bytes(value):
        return "bytes"
    raise BadSpec(f"{of}: the column {field.name!r} is {field.type}, which records can't contain.")


def _size(shape: tuple[int, ...], column: str, of: str) -> int:
    """Returns how many values a row of the column adds to the vector."""
    if -1 in shape:
        raise BadSpec(f"{of}: the column {column!r} has lists of different lengths, so it can't be one part of a vector.")
    return math.prod(shape)


def _common_dtype(dtypes: Sequence[str], fields: Sequence["pa.Field[Any]"], of: str) -> str:
    if len(set(dtypes)) == 1:
        return dtypes[0]
    if "bytes" in dtypes:
        kinds = format_names([f"{field.name} ({each})" for field, each in zip(fields, dtypes, strict=True)])
        raise BadSpec(f"{of}: text and numbers can't share a vector: {kinds}; {NUMBER_TEXT}.{why_text(*fields)}")
    return str(np.result_type(*dtypes).name)


def _class_dtype(dtype: str, shape: tuple[int, ...], num_classes: int, *, chosen: bool, of: str, why: str) -> tuple[str, int | None]:
    """Returns the type of a label with `num_classes` classes, and the exclusive upper limit of its values.

    The limit is None (nothing is checked) if the label is already a one-hot vector.
    """
    if dtype.startswith("float") and shape == (num_classes,):
        return dtype, None
    if dtype == "bytes" or (chosen and dtype.startswith("float")):
        advice = f"; {NUMBER_TEXT}" if dtype == "bytes" else ""
        raise BadSpec(f"{of}: numClasses needs whole numbers, but the label's type is {dtype}{advice}.{why}")
    # Classes such as `1.0` are accepted as whole numbers too. A record with any other value is bad.
    return ("int64", num_classes) if dtype.startswith("float") else (dtype, num_classes)


def _is_raw_by_default(dtype: str, shape: tuple[int, ...]) -> bool:
    """Whether a feature is stored raw by default.

    Tensors of small integers are stored raw. Tensors of float16 are also stored raw, because tf.train.Example has no list for float16.
    """
    if dtype == "bytes" or not shape or -1 in shape:
        return False
    return dtype == "float16" or (np.issubdtype(np.dtype(dtype), np.integer) and np.dtype(dtype).itemsize < 8)


def _float64_warnings(mappings: Sequence[_Mapping], output: Output) -> Iterator[str]:
    """Yields a warning about float64 features that the format stores as float32 by default."""
    narrowed_features = [mapping.feature.name for mapping in mappings if mapping.narrowed]
    if not narrowed_features:
        return
    support = encoder_class(output.format).numbers(output)
    advice = "encoding: Raw" if support.raw else "dtype: float64"
    several = len(narrowed_features) > 1
    yield (
        f"the feature{'s' * several} {', '.join(map(repr, narrowed_features[:_SHOWN_FEATURES]))}"
        f"{f' and {len(narrowed_features) - _SHOWN_FEATURES} more' if len(narrowed_features) > _SHOWN_FEATURES else ''} {'are' if several else 'is'} stored as float32, "
        f"{'the only float of a list in tf.train.Example' if support.raw else f'as {output.format} does unless asked'}; {advice} keeps float64"
    )


def _origins(mappings: Sequence[_Mapping], schema: pa.Schema) -> list[_Origin]:
    """Returns the origins of columns that transforms left unchanged, and whose values are written as numbers.

    If a step computes a column from times or decimals, the column's type changes. So such columns are recognised by their type.
    """
    origins = []
    for mapping in mappings:
        for column in mapping.columns if mapping.feature.kept is None else ():
            was = original(schema.field(column))
            if was is not None and mapping.feature.dtype != "bytes":
                read_type = pa.int64() if pa.types.is_temporal(was.type) else pa.float64()
                if item_type(schema.field(column).type) == read_type:
                    origins.append(_Origin(mapping.feature.name, column, was.name, was.type))
    return origins


# --- doing --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Projection:
    """The column of a feature, and the problems found in its values."""

    column: Array
    faults: Mapping[int, str] = field(default_factory=dict)
    """The bad rows: for each row with values that don't fit, the reason why they don't fit."""
    steps: Mapping[int, int] = field(default_factory=dict)
    """For each row with lists, the position of the faulty value in its list, counted from 0."""
    inexact: Sequence[InexactIntegers] = ()
    """Whole numbers that the feature can't store exactly."""


def _project_with_nulls(mapping: _Mapping, columns: Sequence[Array], nulls: Nulls) -> _Projection:
    """Projects columns with nulls. A null stays a null, or makes its row bad."""
    projected = _project(mapping, columns)
    masks = [null_mask(column) for column in columns]
    if not nulls.held:
        faults = dict(projected.faults)
        for name, mask in reversed(list(zip(mapping.columns, masks, strict=True))):
            faults |= dict.fromkeys(np.flatnonzero(mask).tolist(), nulls.reason(name))
        return replace(projected, faults=faults)
    # In place of a null, `_project` sees a zero or an empty list, which always fits.
    faults = {row: reason for row, reason in projected.faults.items() if not masks[0][row]}
    column = projected.column if projected.column.null_count else masked(projected.column, masks[0])
    return replace(projected, column=column, faults=faults)


def _project(mapping: _Mapping, columns: Sequence[Array]) -> _Projection:
    feature = mapping.feature
    if feature.sequence or feature.shape == (-1,):
        return _project_lists(mapping, columns)
    if feature.dtype == "bytes":
        return _Projection(columns[0] if len(columns) == 1 else _text_vectors(columns))
    if _is_as_it_is(mapping, columns[0].type):
        return _Projection(columns[0])
    inexact_columns: list[InexactIntegers] = []
    faults: dict[int, str] = {}
    parts: list[npt.NDArray[Any]] = []
    for column, name in zip(columns, mapping.columns, strict=True):
        values, missing = numbers(column)
        faults |= {int(row): f"{name} has no value" for row in missing}
        parts.append(values)
        if (inexact_column := inexact(values, feature.dtype, name)) is not None:
            inexact_columns.append(inexact_column)
    rows = len(columns[0])
    values = np.concatenate([part.reshape(rows, math.prod(part.shape[1:])) for part in parts], axis=1).reshape(rows, *feature.shape)
    converted, is_wrong = as_type(values, feature.dtype)
    for row, value in first_of_each_row(values, is_wrong):
        faults.setdefault(row, f"{feature.name} {value} does not fit {feature.dtype}")
    if mapping.num_classes is not None:
        for row, value in first_of_each_row(converted, (converted < 0) | (converted >= mapping.num_classes)):
            faults.setdefault(row, f"{feature.name} {value} is outside 0..{mapping.num_classes - 1}")
    return _Projection(to_arrow(converted), faults, inexact=inexact_columns)


def _lossy_integers(inexact_columns: Sequence[tuple[FeatureSpec, InexactIntegers]], faults: Mapping[int, str]) -> Iterator[Lossy]:
    bad = list(faults)
    for feature, integers in inexact_columns:
        good_rows = np.flatnonzero(~np.isin(integers.rows, bad))
        if len(good_rows):
            value = integers.values[good_rows[0]]
            stored_text = f"{float(value.astype(feature.dtype)):.17g}"
            yield _describe_loss(feature.name, integers.column, "Integer", feature.dtype, len(good_rows), value, stored_text)


def _describe_loss(
    feature: str, column: str, kind: Literal["Integer", "Decimal", "Time"], type_: str, records: int, value: Any, stored: Any
) -> Lossy:
    return Lossy(
        feature=feature, column=column, kind=kind, type=type_, records=records, value=format_example(value), stored=format_example(stored)
    )


def _project_lists(mapping: _Mapping, columns: Sequence[Array]) -> _Projection:
    """Projects lists: projects each item as if it were a row, and puts the results back into lists."""
    feature = mapping.feature
    columns, faults = _require_equal_counts(mapping.columns, columns)
    lists = [flatten_lists(column) for column in columns]
    first_lists = lists[0]
    inner = replace(mapping, feature=replace(feature, shape=feature.shape[1:], sequence=False))
    items = _project(inner, [column_lists.items for column_lists in lists])
    inexact_columns: list[InexactIntegers] = []
    for other in items.inexact:
        rows, first = np.unique(first_lists.rows()[other.rows], return_index=True)
        inexact_columns.append(InexactIntegers(other.column, rows, other.values[first]))
    item_faults = dict(items.faults)
    steps: dict[int, int] = {}
    for column_lists, name in zip(lists, mapping.columns, strict=True):
        item_faults |= dict.fromkeys(_null_rows(column_lists.items), f"{name} has a null among its values")
    if item_faults:
        rows, starts = first_lists.rows(), np.cumsum(first_lists.counts) - first_lists.counts
        unit = "step" if feature.sequence else "value"
        for place in sorted(item_faults):
            row = int(rows[place])
            if row not in faults:
                steps[row] = place - int(starts[row])
                faults[row] = f"{item_faults[place]} ({unit} {steps[row] + 1} of {first_lists.counts[row]})"
    if items.column is first_lists.items and not is_tensor(columns[0].type):
        return _Projection(columns[0], faults, steps, inexact_columns)
    for row in _null_rows(columns[0]):
        faults.setdefault(row, f"{mapping.columns[0]} has no value")
    return _Projection(put_together(items.column, first_lists), faults, steps, inexact_columns)


def _require_equal_counts(names: Sequence[str], columns: Sequence[Array]) -> tuple[Sequence[Array], dict[int, str]]:
    """If a row's lists differ in length, replaces these lists with nulls.

    Returns the columns, and a dict that maps each such row to its fault.
    """
    if len(columns) == 1:
        return columns, {}
    counts = [flatten_lists(column).counts for column in columns]
    faults: dict[int, str] = {}
    for name, other in zip(names[1:], counts[1:], strict=True):
        for row in np.flatnonzero(other != counts[0]).tolist():
            faults.setdefault(row, f"{names[0]} has {counts[0][row]} values, but {name} has {other[row]}")
    if faults:
        places = np.arange(len(columns[0]))
        good_rows: Any = pa.array(places, mask=np.isin(places, list(faults)))
        columns = [column.take(good_rows) for column in columns]
    return columns, faults


def _null_rows(column: Array) -> list[int]:
    rows: list[int] = np.flatnonzero(null_mask(column)).tolist() if column.null_count else []
    return rows


def _is_as_it_is(mapping: _Mapping, kind: pa.DataType) -> bool:
    """Whether a column of this type can be used as the feature without conversion, whatever its values are."""
    feature = mapping.feature
    if len(mapping.columns) > 1 or mapping.num_classes is not None or feature.sequence or feature.shape == (-1,):
        return False
    return NUMPY_NAMES.get(item_type(kind)) == feature.dtype and row_shape(kind) == feature.shape


def _text_vectors(columns: Sequence[Array]) -> Array:
    """Joins several text columns into one column of lists. Each list has an item for each column."""
    rows, size = len(columns[0]), len(columns)
    cast: Any = pa.concat_arrays([column.cast(pa.large_binary()) for column in columns])
    order = np.arange(rows * size).reshape(size, rows).T.ravel()
    lists: Array = pa.FixedSizeListArray.from_arrays(cast.take(order), size)
    return lists
