"""Planning: every sample's place in a split and a shard. Pure but for the listing and the reading of a few samples."""

import hashlib
import io
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from dataprep_api import canonical, run_id
from dataprep_api.plan import PlanHead
from dataprep_api.spec import DataPrepJobSpec
from dataprep_converter.access import Access
from dataprep_converter.encoders import encoder_class
from dataprep_converter.errors import BadSpec, NoInput
from dataprep_converter.pipeline import Pipeline
from dataprep_converter.readers import reader_class
from dataprep_converter.splitting import divide
from dataprep_converter.units import Units

TASK_BYTES = 256 * 2**20
TASKS_PER_WORKER = 4
MAX_TASKS = 10_000
_PROBE_RECORDS = 64


@dataclass(frozen=True)
class Plan:
    """The plan as a worker holds it."""

    head: PlanHead
    sha256: str
    """Of `plan.json`."""
    units: Units


def make(spec: DataPrepJobSpec, access: Access) -> tuple[Plan, bytes]:
    """The plan, and the bytes of `units.parquet`. Raises BadSpec, NoInput, or what the source's store says."""
    reader_type = reader_class(spec.source.kind)
    discovery = reader_type.discover(spec.source, access)
    units = Units.of(discovery.units)
    if units.samples == 0 and not spec.allow_empty:
        raise NoInput(f"The source {spec.source.kind} holds no records; set allowEmpty: true if that is right.")

    parquet = _parquet(units)
    inputs_sha256 = _inputs_digest(units)
    state = dict(discovery.state)
    pipeline = Pipeline(spec, state, access)
    bytes_in = int(np.sum(units.table["size"].to_numpy())) if len(units) else 0
    encoded = _encoded_bytes(pipeline, units, bytes_in)
    extension = encoder_class(spec.output.format).extension(spec.output)
    splits = divide(spec, units, bytes_per_record=encoded / max(1, units.samples), extension=extension)
    head = PlanHead(
        run_id=run_id.run_id(spec, inputs_sha256=inputs_sha256),
        encoding_version=run_id.ENCODING_VERSION,
        spec_sha256=canonical.sha256(run_id.content(spec)),
        inputs_sha256=inputs_sha256,
        units_sha256=hashlib.sha256(parquet).hexdigest(),
        reader=spec.source.kind,
        reader_state=state,
        samples=units.samples,
        bytes_in=bytes_in,
        ignored=int(state.get("ignored", 0)),
        shuffle_seed=spec.shuffle.seed if spec.shuffle else None,
        splits=splits,
        extension=extension,
        tasks=_tasks(sum(split.shards for split in splits), max(bytes_in, encoded), spec.workers.parallelism),
        warnings=[*pipeline.warnings, *(f"the split {split.name} is empty" for split in splits if split.records == 0)],
    )
    return Plan(head=head, sha256=hashlib.sha256(head.to_bytes()).hexdigest(), units=units), parquet


def load(head: bytes, parquet: bytes) -> Plan:
    """A stored plan. Raises BadSpec when its two files don't belong together."""
    plan = PlanHead.model_validate_json(head)
    if hashlib.sha256(parquet).hexdigest() != plan.units_sha256:
        raise BadSpec("units.parquet is not the one that plan.json names; remove the run's folder below _dataprep and plan again.")
    # Not read_table: it reads on threads of Arrow's own, and a worker that ends while one of them still lets go of the bytes dies with it.
    table = pq.ParquetFile(pa.BufferReader(parquet)).read(use_threads=False)
    return Plan(head=plan, sha256=hashlib.sha256(head).hexdigest(), units=Units(table))


def _tasks(shards: int, size: int, parallelism: int) -> int:
    return min(shards, MAX_TASKS, max(TASKS_PER_WORKER * parallelism, -(-size // TASK_BYTES)))


def _inputs_digest(units: Units) -> str:
    """Over root, path, size and pin of every unit: what was pinned, not where it lies."""
    digest = hashlib.sha256()
    for batch in units.table.select(["root", "path", "offset", "size", "records", "pin", "extra"]).to_batches(max_chunksize=65_536):
        digest.update(canonical.dumps(batch.to_pydict()))
    return digest.hexdigest()


def _parquet(units: Units) -> bytes:
    buffer = io.BytesIO()
    pq.write_table(units.table, buffer, compression="zstd", row_group_size=65_536, write_statistics=False)
    return buffer.getvalue()


def _encoded_bytes(pipeline: Pipeline, units: Units, bytes_in: int) -> int:
    """About how many bytes the records will have before compression, from the first few samples."""
    probe = np.arange(min(_PROBE_RECORDS, units.samples), dtype=np.int64)
    if not len(probe):
        return 0
    encoded, good = pipeline.encoded_size(units, probe)
    if not good:
        return bytes_in
    if len(units) == units.samples:  # one file a sample: sizes differ, what is added does not
        index, _ = units.locate(probe)
        read = int(np.sum(units.table["size"].to_numpy()[index]))
        return max(1, bytes_in + (encoded - read) * units.samples // good)
    return encoded * units.samples // good
