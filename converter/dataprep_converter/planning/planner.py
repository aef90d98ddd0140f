"""Makes a job's plan: lists the inputs, assigns every sample to a split and a shard, and estimates sizes from a few samples."""

import hashlib
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from dataprep_api import canonical, names
from dataprep_api.dataset import run_id
from dataprep_api.dataset.messages import MOST_TASKS
from dataprep_api.dataset.plan import PlanHead, SplitPlan
from dataprep_api.spec import DataPrepJobSpec, Split, Splits
from dataprep_converter.core.closeable import Closeable, closed_on_error
from dataprep_converter.core.errors import BadSpec
from dataprep_converter.formats.registry import encoder_class
from dataprep_converter.inputs.access import Access
from dataprep_converter.pipeline.pipeline import Pipeline
from dataprep_converter.planning import assignment, dedupe_by_sql
from dataprep_converter.planning.assignment import Assignment, FindRepeated
from dataprep_converter.planning.digest_reader import DigestReader
from dataprep_converter.planning.growth import TYPES, Base, check_types, renumber
from dataprep_converter.planning.planned_inputs import Inputs, list_inputs, read_columns
from dataprep_converter.planning.sample_limit import SampleLimit
from dataprep_converter.planning.splits import counted_by_size, divide, misses_rule, rules_of
from dataprep_converter.readers import AcceptsReadPlan
from dataprep_converter.readers.base.blocks import KEPT_BYTES
from dataprep_converter.readers.joins.joined_tables import JOINS
from dataprep_converter.readers.text_scan.files import TEXT_UNITS
from dataprep_converter.records.batch import INT96, SAMPLE, STRUCTS, TEXTS
from dataprep_converter.records.feature import FeatureSpec
from dataprep_converter.runtime.plan_progress import PlanProgress
from dataprep_converter.sampling.plan import Tables, WholePlan
from dataprep_converter.sampling.selection import Samples, Selection
from dataprep_converter.sampling.split_assignments import SplitAssignments
from dataprep_converter.sampling.split_assignments import to_parquet as store_codes
from dataprep_converter.sampling.units import UnitTable
from dataprep_converter.sampling.units_file import UnitsFile
from dataprep_converter.stores import WritesAside

TASK_BYTES = 256 * 2**20
TASKS_PER_WORKER = 4
POD_BYTES = 64 * 2**20
"""Converting fewer bytes than this takes less time than starting another pod."""
RANGE_BYTES = 2**20
"""In the first round of a shuffle, the average range has at least about this many bytes. The number of tasks is limited for this purpose,
but never to fewer than the number of workers. Each range takes three requests, and in a large shuffle the requests take longer than
transferring the bytes."""
_PROBE_RECORDS = 64
_FEW_RECORDS = 4
"""Number of records that are probed if the spec gives the number of shards.

In this case, the record size affects only the number of tasks.
"""
_LEARNED_RECORDS = 4096


@dataclass(frozen=True)
class NewPlan(Closeable):
    """A plan, its files, and its pipeline's features and class names. Closing the plan removes its files from $TMPDIR."""

    plan: WholePlan
    tables: Tables
    classes: Mapping[str, Sequence[str]]
    """Class names by feature."""
    features: Sequence[FeatureSpec]
    size: int
    """Size in bytes of the new inputs, or the estimated size of their records if that is larger."""

    def close(self) -> None:
        """Closes the tables."""
        self.tables.close()


@dataclass(frozen=True)
class _Division:
    """The division of the new units into splits and shards."""

    rules: Splits
    splits: list[SplitPlan]
    codes: bytes | None
    """The content of `splits.parquet`, or None if samples have no codes."""
    repeated: int
    """Number of records left out as duplicates."""
    learned: Mapping[str, Any]
    """The values that transforms have learned, keyed by the transform's position."""
    encoded_bytes: int
    """Estimated size of the records before compression."""


def make_plan(spec: DataPrepJobSpec, access: Access, base: Base | None = None, *, parts: Mapping[str, int] | None = None) -> NewPlan:
    """Plans a job. With a base, the plan begins with the base's plan, and only new units are divided into splits and shards.

    `parts` gives the versions of the rules to follow, so that an earlier plan can be reproduced. By default, the base's versions are used
    or, if there is no base, this release's versions. This release makes no new data sets with rounded defaults. So a column default that
    would be rounded is an error, except if an earlier plan is reproduced or extended.

    Raises InputChanged if inputs of the base have changed. Also raises BadSpec, NoInput and the errors of the source's store.
    """
    access.rounds_defaults = base is not None or parts is not None
    if parts is None:
        parts = run_id.versions(spec) if base is None else base.head.parts
    access.follow(spec, parts)
    inputs = list_inputs(spec, access, base)
    learned = base.head.learned if base is not None else None
    with closed_on_error(inputs), Pipeline(spec, {**inputs.state, TEXTS: inputs.texts}, access, learned) as pipeline:
        if base is None:
            # Leave out the versions of rules that the job doesn't use, so that a new version changes only the run ids of jobs that use the
            # rule. Some rules apply to inputs: to structs, INT96 times and large text files. Others apply to times and decimals in the
            # records, to comparisons of decimals with more than 15 digits, and to joins of large records with nulls.
            is_used = {
                STRUCTS: STRUCTS in inputs.state,
                INT96: INT96 in inputs.state,
                TEXT_UNITS: access.has_text_cells,
                JOINS: access.may_cut_otherwise,
                "types": any(feature.kept is not None for feature in pipeline.features),
                "decimals": pipeline.compares_decimals,
            }
            parts = {name: version for name, version in parts.items() if is_used.get(name, True)}
        if base is not None:
            _check_types(spec, inputs, pipeline, access, base)
        return _new_plan(spec, inputs, pipeline, access, base, parts)


def _check_types(spec: DataPrepJobSpec, inputs: Inputs, pipeline: Pipeline, access: Access, base: Base) -> None:
    """Raises BadSpec if the new inputs change the type of a feature, or the unit of a time column."""
    state = base.head.reader_state
    if any(state.get(name) != inputs.state.get(name) for name in TYPES):
        with Pipeline(spec, {**state, TEXTS: inputs.texts}, access, base.head.learned) as earlier:
            check_types(earlier.types(), pipeline.types())


def _check_names(pipeline: Pipeline, spec: DataPrepJobSpec) -> None:
    """Raises BadSpec if a column has the name that is reserved for the sample numbers in batches."""
    kind = spec.data.kind
    if SAMPLE in pipeline.reader.schema().names:
        field = "select" if kind == "csv" else "columns" if "columns" in type(spec.data.member).model_fields else None
        advice = f"list the other columns in source.{kind}.{field}" if field is not None else f"leave it out of source.{kind}"
        raise BadSpec(f"source.{kind}: the column {SAMPLE!r} has a reserved name; give it another name, or {advice}.")


def _new_plan(
    spec: DataPrepJobSpec, inputs: Inputs, pipeline: Pipeline, access: Access, base: Base | None, parts: Mapping[str, int]
) -> NewPlan:
    _check_names(pipeline, spec)
    division = _divide(spec, inputs, pipeline, base, access, parts)
    this_run = run_id.run_id(spec, inputs_sha256=inputs.sha256, parts=parts)
    units, codes, splits = inputs.units, division.codes, division.splits
    size = max(inputs.new.size, division.encoded_bytes)
    if base is not None:
        codes = _join_codes(base, codes)
        splits = [*base.head.splits, *(renumber(split, base) for split in splits)]
    elif inputs.intermediate is not None:
        units = inputs.intermediate.with_stored_uris(units, names.join(spec.output.uri, names.intermediate_folder(this_run)))
    tables = Tables(units=UnitsFile.of(units), codes=codes, intermediate=inputs.intermediate)
    with closed_on_error(tables):
        reads_all = _needs_all_units(spec, inputs, pipeline)
        # If a data set is extended, there is no first round of a shuffle, because the earlier shards already exist.
        has_rounds = reads_all and base is None and access.divides_shuffles and not _keeps_removed_files(spec, access)
        tasks = _count_tasks(spec, division, size=size, extends=base is not None, passes=reads_all and not has_rounds)
        has_rounds &= tasks > 0
        head = PlanHead(
            run_id=this_run,
            encoding_version=run_id.ENCODING_VERSION,
            parts=dict(parts),
            spec_sha256=canonical.sha256(run_id.content(spec)),
            inputs_sha256=inputs.sha256,
            units_sha256=tables.units.sha256,
            unit_groups=tables.units.groups(units),
            codes_sha256=hashlib.sha256(codes).hexdigest() if codes is not None else None,
            reader=spec.data.kind,
            reader_state=dict(inputs.state),
            learned=dict(division.learned),
            samples=inputs.units.samples,
            bytes_in=inputs.units.size,
            ignored=_count_ignored(spec, inputs.state, access),
            code_sha256=inputs.code_sha256,
            keys=dict(inputs.keys),
            commits=dict(access.commits),
            shuffle_seed=spec.shuffle.seed if spec.shuffle else None,
            shuffle_tasks=count_shuffle_tasks(units.size, len(units), tasks=tasks, parallelism=spec.workers.parallelism)
            if has_rounds
            else None,
            splits=splits,
            extends=[*base.head.extends, base.as_earlier()] if base is not None else [],
            extension=encoder_class(spec.output.format).extension(spec.output),
            tasks=tasks,
            warnings=[*_all_warnings(spec, inputs, division, pipeline, access, extends=base is not None)],
        )
    plan = WholePlan(
        head=head,
        sha256=hashlib.sha256(head.to_bytes()).hexdigest(),
        units=units,
        codes=SplitAssignments(codes) if codes is not None else None,
    )
    return NewPlan(
        plan=plan,
        tables=tables,
        classes=pipeline.class_names(),
        features=pipeline.features,
        size=size,
    )


def _divide(
    spec: DataPrepJobSpec, inputs: Inputs, pipeline: Pipeline, base: Base | None, access: Access, parts: Mapping[str, int]
) -> _Division:
    """Divides the new units into splits and shards, and fits the pipeline's steps that learn from data."""
    units = inputs.new
    rules = rules_of(spec, inputs.units)
    assigned = _assign(spec, inputs, pipeline, rules, access)
    divided = partial(
        divide,
        spec,
        units,
        extension=encoder_class(spec.output.format).extension(spec.output),
        rules=rules,
        assigned=assigned.plans if assigned else None,
    )
    # The record size has no effect on which samples belong to a split.
    members = partial(divided, bytes_per_record=0)
    learned = base.head.learned if base is not None else _learn(spec, units, pipeline, members, assigned, access.progress)
    probe = _PROBE_RECORDS if counted_by_size(spec) else _FEW_RECORDS
    encoded_bytes = _estimate_encoded_bytes(pipeline, units, units.size, probe=probe)
    return _Division(
        rules=rules,
        splits=divided(bytes_per_record=encoded_bytes / max(1, units.samples), parts=parts),
        codes=assigned.stored if assigned else None,
        repeated=assigned.repeated if assigned else 0,
        learned=learned,
        encoded_bytes=encoded_bytes,
    )


def _assign(spec: DataPrepJobSpec, inputs: Inputs, pipeline: Pipeline, rules: Splits, access: Access) -> Assignment | None:
    """Returns the split of each new sample, or None if ranges and hash intervals can express the splits."""
    units = inputs.new
    if not assignment.is_needed(spec, units.samples):
        return None
    return assignment.assign(
        rules,
        units,
        limit=spec.limit,
        unique=spec.deduplicate.columns if spec.deduplicate else None,
        schema=pipeline.reader.schema(),
        read=lambda columns: read_columns(
            pipeline.reader, units, columns, bytes_in=units.size, progress=access.progress, exact=pipeline.exact_decimals
        ),
        find_repeated=_find_repeated(spec, inputs, pipeline, access),
    )


def _find_repeated(spec: DataPrepJobSpec, inputs: Inputs, pipeline: Pipeline, access: Access) -> FindRepeated | None:
    """Returns the function by which the job's SQL engine finds duplicates, or None if this process finds them."""
    engine = access.sql_engine
    if spec.deduplicate is None or engine is None:
        return None
    if not dedupe_by_sql.helps(engine, inputs.new, has_local_files=inputs.intermediate is not None):
        return None

    def find(columns: Sequence[str], limit: SampleLimit | None) -> Generator[Samples, None, None]:
        source, rules, exact = access.unsigned(spec.data), access.rules(), pipeline.exact_decimals
        reader = DigestReader.of(source, inputs.state, inputs.new, columns, rules=rules, exact=exact, limit=limit)
        compared = {"inputs": inputs.sha256, "columns": list(columns), "limit": spec.limit}
        folder = names.join(spec.output.uri, names.deduplication_folder(canonical.sha256(compared)[:16])) if engine.is_remote else None
        return dedupe_by_sql.find_repeated(reader, engine, access, folder=folder)

    return find


def _learn(
    spec: DataPrepJobSpec,
    units: UnitTable,
    pipeline: Pipeline,
    splits: Callable[[], Sequence[SplitPlan]],
    assigned: Assignment | None,
    progress: PlanProgress,
) -> dict[str, Any]:
    """Fits the steps that learn, one after the other. Returns the learned values, keyed by step number.

    Each step is fitted to the samples of its own split.
    """
    learned: dict[str, Any] = {}
    for number, name in pipeline.unfitted_steps():
        split = _find_split(splits(), name, of=(spec.transforms or [])[number].kind)
        size = min(pipeline.most_records, _LEARNED_RECORDS)
        codes = SplitAssignments(assigned.stored) if assigned else None
        chunks = Selection(split, units, shuffle_seed=None, codes=codes).chunks(0, split.records, size=size)
        progress.to_read += split.records
        learned[str(number)] = pipeline.learn(number, units, _counted(chunks, progress))
        pipeline.take(number, learned[str(number)])
    return learned


def _counted(chunks: Iterator[Samples], progress: PlanProgress) -> Iterator[Samples]:
    """Yields arrays of sample numbers, and counts the samples that are read."""
    for chunk in chunks:
        yield chunk
        progress.read += len(chunk)


def _join_codes(base: Base, added_codes: bytes | None) -> bytes | None:
    """Appends the new units' codes to the base's codes."""
    parts = [(base.codes, base.blocks)] if base.codes is not None else []
    if added_codes is not None:
        new = SplitAssignments(added_codes)
        parts.append((new, new.blocks))
    return store_codes(codes.block(number) for codes, blocks in parts for number in range(blocks)) if parts else None


def _find_split(splits: Sequence[SplitPlan], name: str, *, of: str) -> SplitPlan:
    """Returns the split with this name or, without a name, the first split that has records. If there is none, raises BadSpec."""
    split_plan = next((split for split in splits if split.name == name or (not name and split.records)), None)
    if split_plan is None:
        raise BadSpec(f"The transform {of}: there is no split {name!r} with records; the splits are {', '.join(s.name for s in splits)}.")
    return split_plan


def _all_warnings(
    spec: DataPrepJobSpec, inputs: Inputs, division: _Division, pipeline: Pipeline, access: Access, *, extends: bool
) -> Iterator[str]:
    """Yields the warnings about the inputs, the features and the splits."""
    yield from inputs.state.get("warnings", [])
    if extends and access.times_in_nanoseconds:
        yield (
            f"the column {next(iter(access.times_in_nanoseconds))!r} has times of INT96, which this data set has in nanoseconds: times before "
            "1677-09-21 or after 2262-04-11 are wrong. Make the data set again (overwrite: Always) to have them in microseconds"
        )
    yield from _data_set_warnings(access.skipped.in_data_sets)
    yield from pipeline.warnings
    if spec.splits is None:
        yield from (_rename_warning(split) for split in division.rules.into if split.subset not in (None, split.name))
    # An extension often adds no records to a split, so empty splits are left out here.
    splits = [split for split in division.splits if split.records] if extends else division.splits
    total = min(inputs.new.samples, spec.limit or inputs.new.samples)
    yield from _split_warnings(splits, total=total, repeated=division.repeated)


def _split_warnings(splits: Sequence[SplitPlan], *, total: int, repeated: int) -> Iterator[str]:
    """Yields the warnings about the splits."""
    for split in splits:
        if split.records == 0:
            yield f"the split {split.name} is empty"
        elif misses_rule(split):
            within = f" within {split.tolerance:,}" if split.tolerance else ""
            yield f"the split {split.name} has {split.records:,} records; its rule asks for {split.expected:,}{within}"
    if repeated:
        yield f"{repeated:,} of {total:,} records say the same as an earlier one and are left out"
    left_out = total - repeated - sum(split.records for split in splits)
    if left_out:
        yield f"{left_out:,} of {total:,} records are in no split"


def _rename_warning(split: Split) -> str:
    return f"the subset {split.subset!r} is the split {split.name}; splits.into can give it another name"


def _count_ignored(spec: DataPrepJobSpec, state: Mapping[str, Any], access: Access) -> int:
    """Returns the number of input files that are not read.

    A join leaves out keys, not files, and a separate warning counts these keys.
    """
    filtered = 0 if spec.data.join is not None else int(state.get("ignored", 0))
    return filtered + access.skipped.count()


def _data_set_warnings(counts: Mapping[str, int]) -> Iterator[str]:
    """Yields a warning if data sets below the inputs are left out. `counts` maps each data set's URI to its number of files."""
    if counts:
        yield (
            f"{sum(counts.values()):,} files are left out that belong to data sets below the inputs, such as "
            f"{min(counts)}: a data set is read where it is named itself"
        )


def _count_tasks(spec: DataPrepJobSpec, division: _Division, *, size: int, extends: bool, passes: bool) -> int:
    """Returns the number of tasks. An extension has at least one task, even if there are no new shards. For `passes`, see
    `_number_of_tasks`."""
    shards = sum(split.shards for split in division.splits)
    return _number_of_tasks(
        max(1, shards) if extends else shards,
        size,
        spec.workers.parallelism,
        passes=passes,
        own_code=spec.code is not None,
    )


def _needs_all_units(spec: DataPrepJobSpec, inputs: Inputs, pipeline: Pipeline) -> bool:
    """Whether a shard takes its samples from more data than a worker keeps in memory."""
    return spec.shuffle is not None and isinstance(pipeline.reader, AcceptsReadPlan) and inputs.units.size > KEPT_BYTES


def _keeps_removed_files(spec: DataPrepJobSpec, access: Access) -> bool:
    """Whether the output's store keeps removed files in its history, so that the files of a first round would take up space forever."""
    return isinstance(access.store(spec.output.uri), WritesAside)


def count_shuffle_tasks(size: int, units: int, *, tasks: int, parallelism: int) -> int:
    """Returns the number of tasks in the first round of a shuffle of `size` bytes.

    A task reads about TASK_BYTES, or less if there would otherwise be fewer tasks than workers. The output of a task has one range for each
    convert task. If these ranges would be so small that most of the time would be spent on requests, a task reads more.
    """
    wanted = max(-(-size // TASK_BYTES), min(parallelism, -(-size // POD_BYTES)))
    largest = max(parallelism, size // (RANGE_BYTES * max(1, tasks)))
    return max(1, min(wanted, largest, units, MOST_TASKS))


def _number_of_tasks(shards: int, size: int, parallelism: int, *, passes: bool, own_code: bool) -> int:
    """Returns the number of tasks. If every task has to read the complete input (`passes`), there is at most one task per worker.

    Otherwise, there are several tasks per worker, so that the other workers can make up for slow tasks. For little data, there is at most
    one task per worker, unless the job contains the user's code (`own_code`), which can take long even for little data.
    """
    if passes:
        return min(shards, MOST_TASKS, parallelism)
    evened_out = TASKS_PER_WORKER * parallelism
    if not own_code:
        evened_out = min(evened_out, max(parallelism, -(-size // POD_BYTES)))
    return min(shards, MOST_TASKS, max(evened_out, -(-size // TASK_BYTES)))


def _estimate_encoded_bytes(pipeline: Pipeline, units: UnitTable, bytes_in: int, *, probe: int) -> int:
    """Estimates the uncompressed size of all records from the first few samples."""
    samples = np.arange(min(probe, units.samples), dtype=np.int64)
    if not len(samples):
        return 0
    encoded, good = pipeline.encoded_size(units, samples)
    if not good:
        return bytes_in
    if len(units) == units.samples:  # with one file per sample, sizes vary, but encoding adds about the same number of bytes to each
        index, _ = units.locate(samples)
        bytes_read = sum(int(row["size"]) for row in units.rows(index, ["size"]))
        return max(1, bytes_in + (encoded - bytes_read) * units.samples // good)
    return encoded * units.samples // good
