"""Planning: every sample's place in a split and a shard. Pure but for the listing and the reading of a few samples."""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from dataprep_api import canonical, names
from dataprep_api.dataset import run_id, sagemaker
from dataprep_api.dataset.plan import PlanHead, SplitPlan
from dataprep_api.spec import DataPrepJobSpec, Split
from dataprep_converter.core.errors import BadSpec, NoInput
from dataprep_converter.core.tensors import pc, to_numpy
from dataprep_converter.dataset import overlaps
from dataprep_converter.formats.registry import encoder_class
from dataprep_converter.inputs.access import Access
from dataprep_converter.pipeline.pipeline import Pipeline
from dataprep_converter.planning import assignment
from dataprep_converter.planning.growth import Base, check_frozen, growth, moved
from dataprep_converter.planning.splits import counted_by_size, divide, missed, rules_of
from dataprep_converter.readers import AcceptsReadPlan, Reader, ReadsColumns, reader_class
from dataprep_converter.readers.base.blocks import KEPT_BYTES
from dataprep_converter.records.batch import SAMPLE, TEXTS
from dataprep_converter.runtime import plugins
from dataprep_converter.sampling.plan import Plan, Tables
from dataprep_converter.sampling.selection import Samples, Selection
from dataprep_converter.sampling.split_assignments import SplitAssignments
from dataprep_converter.sampling.split_assignments import stored as store_codes
from dataprep_converter.sampling.units import UnitTable, samples_of_a_batch
from dataprep_converter.sampling.units_file import UnitsFile
from dataprep_converter.transforms.hash import digests_of_keys, keyed_by

TASK_BYTES = 256 * 2**20
TASKS_PER_WORKER = 4
POD_BYTES = 64 * 2**20
"""Fewer are converted sooner than one more pod starts."""
MAX_TASKS = 10_000
_PROBE_RECORDS = 64
_FEW_RECORDS = 4
"""Where the number of shards is given: then the size of the records only decides on the number of tasks."""
_LOOKED_AT_RECORDS = 8192
_LEARNED_RECORDS = 4096


def make(spec: DataPrepJobSpec, access: Access, base: Base | None = None, *, parts: Mapping[str, int] | None = None) -> tuple[Plan, Tables]:
    """The plan, and its files. With a base it begins with that one's plan, and only what is new to it is divided into splits and shards.

    `parts` are the versions of the rules that a plan made again was made by; a base has its own, and otherwise they are this release's.

    Raises BadSpec, NoInput, InputChanged when the base's inputs are not what they were, or what the source's store says.
    """
    if parts is None:
        parts = run_id.versions(spec) if base is None else base.head.parts
    reader_type = reader_class(spec.data.kind)
    access.parts = parts
    access.passed_over.clear()
    access.hidden.clear()
    discovery = reader_type.discover(access.unsigned(spec.data), access)
    listed = UnitTable.of(discovery.units)
    overlaps.check_units(listed, spec.output.uri, access)
    if listed.samples == 0 and not spec.allow_empty:
        raise NoInput(f"The source {spec.data.kind} holds no records; set allowEmpty: true if that is right.")

    code_sha256 = plugins.digest() if spec.code is not None else None
    keys = digests_of_keys(keyed_by(spec.transforms or []))
    state = dict(discovery.state)
    texts = state.pop(TEXTS, {})
    if sagemaker.has_unknown_length(spec):
        state[sagemaker.NUM_FEATURES] = _largest_key(reader_type(spec.data, state, access), listed) + 1
    units = listed
    if base is not None:
        check_frozen(base, code_sha256=code_sha256, keys=keys, state=state)
        grown = growth(base.units, listed)
        listed, units = grown.joined(), grown.added
    inputs_sha256 = _inputs_digest(units, code_sha256)
    if keys:
        inputs_sha256 = canonical.sha256({"inputs": inputs_sha256, "keys": keys})
    if base is not None:
        # Not over all units: the same inputs at once make other shards.
        inputs_sha256 = canonical.sha256({"before": base.head.inputs_sha256, "added": inputs_sha256})
    pipeline = Pipeline(spec, state | {TEXTS: texts}, access, base.head.learned if base is not None else None)
    rules = rules_of(spec, listed)
    bytes_in = new_bytes = units.size
    extension = encoder_class(spec.output.format).extension(spec.output)
    assigned = None
    if assignment.needed(spec, units.samples):
        assigned = assignment.assign(
            rules,
            units,
            limit=spec.limit,
            unique=spec.deduplicate.columns if spec.deduplicate else None,
            schema=pipeline.reader.schema(),
            read=lambda columns: _columns(pipeline.reader, units, columns, bytes_in=bytes_in),
        )
    plans = assigned.plans if assigned else None
    codes = SplitAssignments(assigned.stored) if assigned else None
    learned: dict[str, Any] = dict(base.head.learned) if base is not None else {}
    for number, wanted in pipeline.unlearned() if base is None else ():
        # Which samples a split has doesn't depend on the size of their records.
        split = _split(
            divide(spec, units, bytes_per_record=0, extension=extension, rules=rules, assigned=plans),
            wanted,
            of=(spec.transforms or [])[number].kind,
        )
        size = min(pipeline.most_records, _LEARNED_RECORDS)
        chunks = Selection(split, units, shuffle_seed=None, codes=codes).chunks(0, split.records, size=size)
        learned[str(number)] = pipeline.learn(number, units, chunks)
        pipeline.take(number, learned[str(number)])
    encoded = _encoded_bytes(pipeline, units, bytes_in, probe=_PROBE_RECORDS if counted_by_size(spec) else _FEW_RECORDS)
    splits = divide(
        spec, units, bytes_per_record=encoded / max(1, units.samples), extension=extension, rules=rules, assigned=plans, parts=parts
    )
    this_run = run_id.run_id(spec, inputs_sha256=inputs_sha256, parts=parts)
    made = discovery.made
    stored = made.stored(units, names.join(spec.output.uri, names.made_folder(this_run))) if made else units
    new_shards = sum(split.shards for split in splits)
    told = splits if base is None else [split for split in splits if split.records]
    renamed = [] if spec.splits is not None else [split for split in rules.into if split.subset not in (None, split.name)]
    warnings = _warnings(told, total=min(units.samples, spec.limit or units.samples), repeated=assigned.repeated if assigned else 0)
    stored_codes = assigned.stored if assigned else None
    if base is not None:
        stored = listed
        stored_codes = _joined(base, stored_codes)
        splits = [*base.head.splits, *(moved(split, base) for split in splits)]
        bytes_in = listed.size
    units_file = UnitsFile.of(stored)
    head = PlanHead(
        run_id=this_run,
        encoding_version=run_id.ENCODING_VERSION,
        parts=dict(parts),
        spec_sha256=canonical.sha256(run_id.content(spec)),
        inputs_sha256=inputs_sha256,
        units_sha256=units_file.sha256,
        codes_sha256=hashlib.sha256(stored_codes).hexdigest() if stored_codes is not None else None,
        reader=spec.data.kind,
        reader_state=state,
        learned=learned,
        samples=listed.samples,
        bytes_in=bytes_in,
        ignored=_ignored(spec, state, access),
        code_sha256=code_sha256,
        keys=keys,
        shuffle_seed=spec.shuffle.seed if spec.shuffle else None,
        splits=splits,
        extends=[*base.head.extends, base.as_earlier()] if base is not None else [],
        extension=extension,
        tasks=_tasks(
            new_shards if base is None else max(1, new_shards),
            max(new_bytes, encoded),
            spec.workers.parallelism,
            passes=spec.shuffle is not None and isinstance(pipeline.reader, AcceptsReadPlan) and bytes_in > KEPT_BYTES,
            own_code=spec.code is not None,
        ),
        warnings=[*state.get("warnings", []), *_passed_over(access), *pipeline.warnings, *map(_renamed, renamed), *warnings],
    )
    tables = Tables(units=units_file, codes=stored_codes, made=made)
    codes = SplitAssignments(stored_codes) if stored_codes is not None else None
    return Plan(head=head, sha256=hashlib.sha256(head.to_bytes()).hexdigest(), units=stored, codes=codes), tables


def _joined(base: Base, added: bytes | None) -> bytes | None:
    """The codes of a base and of what is new."""
    parts = [(base.codes, base.blocks)] if base.codes is not None else []
    if added is not None:
        new = SplitAssignments(added)
        parts.append((new, new.blocks))
    return store_codes(codes.block(number) for codes, blocks in parts for number in range(blocks)) if parts else None


def _split(splits: Sequence[SplitPlan], name: str, *, of: str) -> SplitPlan:
    """The split of this name, or the first one that has records. Raises BadSpec naming those that there are."""
    found = next((split for split in splits if split.name == name or (not name and split.records)), None)
    if found is None:
        raise BadSpec(f"The transform {of}: there is no split {name!r} with records; the splits are {', '.join(s.name for s in splits)}.")
    return found


def _columns(
    reader: Reader, units: UnitTable, columns: Sequence[str], *, bytes_in: int
) -> Iterator[tuple[Samples, pa.RecordBatch, Samples]]:
    """These columns of every sample, in order: (numbers asked for, the good ones' records, the good ones' numbers)."""
    size = samples_of_a_batch(bytes_in, units.samples, most=_LOOKED_AT_RECORDS)

    def chunks() -> Iterator[Samples]:
        for start in range(0, units.samples, size):
            yield np.arange(start, min(start + size, units.samples), dtype=np.int64)

    batches = reader.read_columns(units, chunks(), columns) if isinstance(reader, ReadsColumns) else reader.read(units, chunks())
    for asked, batch in zip(chunks(), batches, strict=True):
        yield asked, batch.records, to_numpy(batch.records.column(SAMPLE))


def _largest_key(reader: Reader, units: UnitTable) -> int:
    """The largest position of a value in all records that can be read; 0 where there is none."""
    largest = 0
    for _, records, _ in _columns(reader, units, [sagemaker.KEYS], bytes_in=units.size):
        lists: Any = records.column(sagemaker.KEYS)
        largest = max(largest, pc.max(lists.flatten()).as_py() or 0)
    return largest


def _warnings(splits: Sequence[SplitPlan], *, total: int, repeated: int) -> Iterator[str]:
    """What the user should know about the splits."""
    for split in splits:
        if split.records == 0:
            yield f"the split {split.name} is empty"
        elif missed(split):
            within = f" within {split.tolerance:,}" if split.tolerance else ""
            yield f"the split {split.name} has {split.records:,} records; its rule asks for {split.expected:,}{within}"
    if repeated:
        yield f"{repeated:,} of {total:,} records say the same as an earlier one and are left out"
    left_out = total - repeated - sum(split.records for split in splits)
    if left_out:
        yield f"{left_out:,} of {total:,} records are in no split"


def _renamed(split: Split) -> str:
    return f"the subset {split.subset!r} is the split {split.name}; splits.into can give it another name"


def _ignored(spec: DataPrepJobSpec, state: Mapping[str, Any], access: Access) -> int:
    """How many files among the inputs are not read. What a join ignores are keys, of which a warning tells."""
    filtered = 0 if spec.data.join is not None else int(state.get("ignored", 0))
    return filtered + sum(access.hidden.values()) + sum(access.passed_over.values())


def _passed_over(access: Access) -> Iterator[str]:
    """Which data sets below the inputs were left out."""
    if access.passed_over:
        yield (
            f"{sum(access.passed_over.values()):,} files are left out that belong to data sets below the inputs, such as "
            f"{min(access.passed_over)}: a data set is read where it is named itself"
        )


def _tasks(shards: int, size: int, parallelism: int, *, passes: bool, own_code: bool) -> int:
    """Where each task `passes` over all of the input, one for each worker, and otherwise more, so that slow ones are evened out.

    Few bytes are not worth more pods than workers; but how long the user's `own_code` takes for them, nobody knows.
    """
    if passes:
        return min(shards, MAX_TASKS, parallelism)
    evened_out = TASKS_PER_WORKER * parallelism
    if not own_code:
        evened_out = min(evened_out, max(parallelism, -(-size // POD_BYTES)))
    return min(shards, MAX_TASKS, max(evened_out, -(-size // TASK_BYTES)))


def _inputs_digest(units: UnitTable, code_sha256: str | None) -> str:
    """Over root, path, size and pin of every unit: what was pinned, not where it lies."""
    digest = hashlib.sha256((code_sha256 or "").encode())
    for batch in units.batches(["root", "path", "offset", "size", "records", "pin", "extra"]):
        for piece in _written(batch):
            digest.update(piece)
    return digest.hexdigest()


def _written(batch: pa.RecordBatch) -> Iterator[bytes]:
    """The canonical JSON of the columns by name, in pieces. Many have one value in all rows."""
    before = b"{"
    for name in sorted(batch.schema.names):
        yield before + canonical.dumps(name) + b":"
        before = b","
        values = batch.column(name)
        if len(values) > 1 and pc.all(pc.equal(values, values[0])).as_py():
            text = canonical.dumps(values[0].as_py())
            yield b"[" + (text + b",") * (len(values) - 1) + text + b"]"
        else:
            yield canonical.dumps(values.to_pylist())
    yield b"}"


def _encoded_bytes(pipeline: Pipeline, units: UnitTable, bytes_in: int, *, probe: int) -> int:
    """About how many bytes the records will have before compression, from the first few samples."""
    samples = np.arange(min(probe, units.samples), dtype=np.int64)
    if not len(samples):
        return 0
    encoded, good = pipeline.encoded_size(units, samples)
    if not good:
        return bytes_in
    if len(units) == units.samples:  # one file a sample: sizes differ, what is added does not
        index, _ = units.locate(samples)
        read = sum(int(row["size"]) for row in units.rows(index, ["size"]))
        return max(1, bytes_in + (encoded - read) * units.samples // good)
    return encoded * units.samples // good
