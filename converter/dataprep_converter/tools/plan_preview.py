"""Previews a job for people: the plan's figures, each split's classes, and likely mistakes. Writes nothing.

The figures come from the plan step. This module reads some records to find the classes and the likely mistakes.
"""

import itertools
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import pyarrow as pa

from dataprep_api.dataset.messages import PlanResult
from dataprep_api.resources.job import DataPrepJob
from dataprep_api.spec import DataPrepJobSpec
from dataprep_converter.core.arrow_types import is_text, without_dictionary
from dataprep_converter.core.errors import ConvertError
from dataprep_converter.core.tensors import pc
from dataprep_converter.inputs.access import Access
from dataprep_converter.readers import Reader, ReadsColumns, reader_class
from dataprep_converter.records.batch import Batch
from dataprep_converter.sampling.plan import Plan, WholePlan
from dataprep_converter.sampling.selection import Samples, Selection
from dataprep_converter.steps.conversion.convert_plan import ConversionDraft
from dataprep_converter.steps.plan_step import drafted, fault_of_output, figures
from dataprep_converter.tools.infer.column_notes import MOST_CLASSES, likely_mistakes, short_value

_TABLES: Final = frozenset({"csv", "jsonl", "parquet", "arrow"})
"""Sources whose columns were chosen by people, so that likely mistakes in the columns can be reported."""
_NO_FILES: Final = frozenset({"sql", "table", "join", "plugin"})
"""Sources whose units don't correspond to the user's files."""
_FIRST_RECORDS: Final = 1000
_MOST_READ: Final = 20_000
"""Maximum number of records that are read from each split to count its classes."""
_MOST_LISTED: Final = 200_000
"""The same limit, for readers that can read single columns cheaply."""
_AT_ONCE: Final = 1000
_FEW: Final = 20
"""If there are fewer records than this, a single class, or a class with a single record, doesn't indicate a mistake."""
_MOST_NAMED: Final = 5

Counts = Mapping[str, Counter[str]]
"""For each split, the number of records by class."""


@dataclass(frozen=True, kw_only=True)
class Preview:
    """What a job would do."""

    result: PlanResult
    format: str
    output: str
    files: int | None = None
    """Number of input files, or None if unknown."""
    classes: Mapping[str, Counts] = field(default_factory=dict)
    """For each label, the number of records by split and class."""
    mistakes: Sequence[str] = ()
    """Likely mistakes that the plan doesn't already warn about."""


def preview(job: DataPrepJob, access: Access) -> Preview:
    """Plans a job and looks at some of its records. Raises the errors of the plan step."""
    with drafted(job, access) as draft:
        result = figures(draft)
        fault = fault_of_output(draft, job=job.metadata.name)
        mistakes = [str(fault)] if fault is not None else []
        classes: Mapping[str, Counts] = {}
        # If the reader generated files while planning, their records can't be read here, because only the plan step stores such files.
        if isinstance(draft, ConversionDraft) and draft.tables.intermediate is None:
            try:
                classes, more = _look_at_records(draft, access)
                mistakes += more
            except ConvertError as exc:
                mistakes.append(str(exc))
        return Preview(
            result=result,
            format=job.spec.output.format,
            output=job.spec.output.uri,
            files=_count_files(draft.plan) if isinstance(draft, ConversionDraft) and job.spec.data.kind not in _NO_FILES else None,
            classes=classes,
            mistakes=mistakes,
        )


def _count_files(plan: WholePlan) -> int:
    """Returns the number of distinct files among the units. The units of one file are consecutive."""
    count = 0
    last: str | None = None
    for batch in plan.units.batches(["uri"]):
        for uri, _ in itertools.groupby(batch.column(0).to_pylist()):
            count += uri != last
            last = uri
    return count


def _look_at_records(draft: ConversionDraft, access: Access) -> tuple[dict[str, Counts], list[str]]:
    """Returns the classes of each label, and likely mistakes."""
    spec, plan = draft.spec, draft.plan
    with reader_class(spec.data.kind)(access.unsigned(spec.data).member, plan.head.reader_state, access) as reader:
        schema = reader.schema()
        columns = {
            feature.name: column
            for feature in draft.features
            if feature.label and (column := _column_of(spec, feature.name)) in schema.names and _holds_classes(schema.field(column).type)
        }
        counted = _count_classes(reader, plan, sorted(set(columns.values()))) if columns else {}
        classes = {label: counted[column] for label, column in columns.items()}
        mistakes = [mistake for label, counts in classes.items() for mistake in _class_mistakes(spec, label, counts)]
        if spec.data.kind in _TABLES:
            mistakes += _column_mistakes(draft, reader, next(iter(columns.values()), None))
    return {label: counts for label, counts in classes.items() if len(_totals(counts)) <= MOST_CLASSES}, mistakes


def _column_of(spec: DataPrepJobSpec, label: str) -> str:
    """Returns the source column that a label comes from."""
    return next((each.columns[0] for each in spec.labels or [] if each.name == label and each.columns and len(each.columns) == 1), label)


def _holds_classes(kind: pa.DataType) -> bool:
    plain = without_dictionary(kind)
    return pa.types.is_integer(plain) or pa.types.is_boolean(plain) or is_text(plain) or pa.types.is_binary(plain)


def _count_classes(reader: Reader, plan: Plan, columns: Sequence[str]) -> dict[str, dict[str, Counter[str]]]:
    """For each of the columns and each split, counts the classes in the first records."""
    names = reader.classes()
    most = _MOST_LISTED if isinstance(reader, ReadsColumns) else _MOST_READ
    counts: dict[str, dict[str, Counter[str]]] = {column: {name: Counter() for name in plan.head.split_names} for column in columns}
    for split in plan.head.splits:
        samples = Selection(split, plan.units, shuffle_seed=None, codes=plan.codes).chunks(0, min(split.records, most), size=_AT_ONCE)
        with closing(_batches(reader, plan, samples, columns)) as batches:
            for batch in batches:
                for column in columns:
                    counts[column][split.name].update(_counted(batch.records.column(column), names.get(column, [])))
    return counts


def _batches(reader: Reader, plan: Plan, samples: Iterator[Samples], columns: Sequence[str]) -> Any:
    """Returns a generator of batches with these columns."""
    return reader.read_columns(plan.units, samples, columns) if isinstance(reader, ReadsColumns) else reader.read(plan.units, samples)


def _counted(values: Any, names: Sequence[str]) -> Counter[str]:
    counts: Counter[str] = Counter()
    for each in pc.value_counts(values).to_pylist():
        value = each["values"]
        is_number = type(value) is int and 0 <= value < len(names)
        counts["(null)" if value is None else names[value] if is_number else short_value(value)] += each["counts"]
    return counts


def _totals(counts: Counts) -> Counter[str]:
    return sum(counts.values(), Counter())


def _class_mistakes(spec: DataPrepJobSpec, label: str, counts: Counts) -> Iterator[str]:
    """Yields the likely mistakes in a label's classes."""
    totals = _totals(counts)
    declared = next((each.num_classes for each in spec.labels or [] if each.name == label), None)
    if len(totals) > MOST_CLASSES and declared is None:
        yield f"the label {label} has {len(totals):,} different values in {totals.total():,} records: is it a class?"
        return
    for split, found in counts.items():
        if len(totals) > 1 and len(found) == 1 and found.total() >= _FEW:
            (only,) = found
            yield (
                f"all {found.total():,} counted records of the split {split} have the class {only} of {label}: "
                "if the input is sorted by class, divide it by fractions, or set stratifyBy"
            )
    if counts.get("train"):
        unseen = sorted(set(totals) - set(counts["train"]))
        if unseen:
            yield f"{_named(unseen)} of {label} {'is' if len(unseen) == 1 else 'are'} not in the counted records of the split train"
    rare = sorted(name for name, count in totals.items() if count == 1)
    if rare and totals.total() >= _FEW:
        yield f"{_named(rare)} of {label} {'has' if len(rare) == 1 else 'have'} a single record"


def _named(classes: Sequence[str]) -> str:
    more = f" and {len(classes) - _MOST_NAMED:,} more" if len(classes) > _MOST_NAMED else ""
    return f"the class{'es' * (len(classes) != 1)} {', '.join(classes[:_MOST_NAMED])}{more}"


def _column_mistakes(draft: ConversionDraft, reader: Reader, label: str | None) -> Iterator[str]:
    """Yields the likely mistakes in the columns that become features, judging by the first records."""
    spec, units = draft.spec, draft.plan.units
    samples = np.arange(min(_FIRST_RECORDS, units.samples), dtype=np.int64)
    batch: Batch | None = next(iter(reader.read(units, iter([samples]))), None) if len(samples) else None
    if batch is None:
        return
    if batch.bad and spec.on_bad_record.policy == "Fail":
        yield f"{len(batch.bad):,} of the first {len(samples):,} records don't fit, the first: {batch.bad[0].reason}; see onBadRecord"
    listed = {column for each in spec.features or [] for column in each.columns or [each.name]}
    chosen = [name for name in reader.schema().names if name == label or not spec.features or name in listed]
    yield from likely_mistakes(batch.records, chosen, label=label)
