"""The inputs of a plan: the source's current files, the new files in an extension, and the digest of all these files."""

import hashlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from dataprep_api import canonical
from dataprep_api.dataset import sagemaker
from dataprep_api.spec import DataPrepJobSpec, Source
from dataprep_converter.core.closeable import Closeable
from dataprep_converter.core.errors import NoInput
from dataprep_converter.core.tensors import pc, to_numpy
from dataprep_converter.dataset import overlaps
from dataprep_converter.inputs.access import Access, SkippedFiles
from dataprep_converter.planning.growth import Base, check_frozen, find_growth
from dataprep_converter.readers import ReadsColumns, SampleReader, reader_class
from dataprep_converter.records.batch import SAMPLE, TEXTS
from dataprep_converter.records.exact_decimals import with_digits
from dataprep_converter.runtime import plugins
from dataprep_converter.runtime.plan_progress import PlanProgress
from dataprep_converter.sampling.intermediate_files import IntermediateFiles
from dataprep_converter.sampling.selection import Samples
from dataprep_converter.sampling.units import UnitTable, samples_of_a_batch
from dataprep_converter.transforms.hash import digests_of_keys, keyed_by

_BATCH_RECORDS = 8192
"""Records per batch when only some columns are read."""


@dataclass(frozen=True)
class Inputs(Closeable):
    """The inputs of a plan. Closing the inputs removes the files that the reader made on this machine."""

    units: UnitTable
    """All units. If there is a base, its units come first."""
    new: UnitTable
    """The units that have no split yet: all units if there is no base, or else the units that are not in the base."""
    state: Mapping[str, Any]
    """The reader's state, which is given to every worker."""
    texts: Mapping[str, str]
    """Maps each text column to the reason why it isn't numeric.

    This mapping is not part of the reader's state, because only errors during planning use it.
    """
    intermediate: IntermediateFiles | None
    """Files that the reader made on this machine. The units refer to these files."""
    code_sha256: str | None
    keys: Mapping[str, str]
    """For each key that is used to hash records, maps its environment variable to a digest of the key."""
    sha256: str

    def close(self) -> None:
        """Removes the files that the reader made."""
        if self.intermediate is not None:
            self.intermediate.remove()


def list_inputs(spec: DataPrepJobSpec, access: Access, base: Base | None) -> Inputs:
    """Lists the source.

    Raises InputChanged if inputs of the base have changed. Also raises BadSpec, NoInput and the errors of the source's store.
    """
    access.skipped = SkippedFiles()
    access.has_text_cells = False
    access.may_cut_otherwise = False
    reader_type = reader_class(spec.data.kind)
    discovery = reader_type.discover(access.unsigned(spec.data).member, access)
    units, state = discovery.collect(access.progress)
    overlaps.check_units(units, spec.output.uri, access)
    if units.samples == 0 and not spec.allow_empty:
        raise NoInput(_no_records(spec.data, ignored=int(state.get("ignored", 0)), hidden=access.skipped.count()))

    code_sha256 = plugins.digest() if spec.code is not None else None
    keys = digests_of_keys(keyed_by(spec.transforms or []))
    texts = state.pop(TEXTS, {})
    if sagemaker.has_unknown_length(spec):
        with reader_type(spec.data.member, state, access) as reader:
            state[sagemaker.NUM_FEATURES] = _largest_key(reader, units, access.progress) + 1
    new = units
    if base is not None:
        check_frozen(base, code_sha256=code_sha256, keys=keys, state=state)
        growth = find_growth(base.units, units)
        units, new = growth.all_units(), growth.added
    return Inputs(
        units=units,
        new=new,
        state=state,
        texts=texts,
        intermediate=discovery.intermediate,
        code_sha256=code_sha256,
        keys=keys,
        sha256=_sha256(new, code_sha256=code_sha256, keys=keys, base=base),
    )


def _no_records(source: Source, *, ignored: int, hidden: int) -> str:
    """Describes a source without records.

    `ignored` is the number of files of a kind that the source doesn't read. `hidden` is the number of files that aren't listed.
    """
    kind = type(source).model_fields[source.kind].alias or source.kind
    if not ignored and not hidden:
        return f"The source {kind} contains no records; set allowEmpty: true if this is intended."
    reasons = [f"{ignored:,} file{'s' * (ignored != 1)} of another kind"] * bool(ignored)
    reasons += [f"{hidden:,} file{'s' * (hidden != 1)} whose name begins with _ or a dot, or that belong to data sets"] * bool(hidden)
    uris = source.inputs()
    advice = f"run dataprep infer {uris[0]} to find the source that reads them" if ignored and len(uris) == 1 else "check the URIs"
    return f"The source {kind} contains no records, only {' and '.join(reasons)}: {advice}, or set allowEmpty: true if this is intended."


def read_columns(
    reader: SampleReader,
    units: UnitTable,
    columns: Sequence[str],
    *,
    bytes_in: int,
    progress: PlanProgress,
    exact: Collection[str] = (),
    samples: range | None = None,
) -> Iterator[tuple[Samples, pa.RecordBatch, Samples]]:
    """Reads some columns of the samples in a range, or of all samples, in order. The records also contain the lost digits of the decimals in
    `exact`.

    Yields (requested sample numbers, records of the good samples, numbers of the good samples), and counts the samples in `progress`.
    """
    wanted = range(units.samples) if samples is None else samples
    progress.to_read += len(wanted)
    size = samples_of_a_batch(bytes_in, units.samples, most=_BATCH_RECORDS)

    def chunks() -> Iterator[Samples]:
        for start in range(wanted.start, wanted.stop, size):
            yield np.arange(start, min(start + size, wanted.stop), dtype=np.int64)

    batches = reader.read_columns(units, chunks(), columns) if isinstance(reader, ReadsColumns) else reader.read(units, chunks())
    for chunk, batch in zip(chunks(), batches, strict=True):
        progress.read += len(chunk)
        yield chunk, with_digits(batch, {name: name for name in exact}), to_numpy(batch.records.column(SAMPLE))


def _largest_key(reader: SampleReader, units: UnitTable, progress: PlanProgress) -> int:
    """Returns the maximum index of a sparse feature in the readable records, or 0 if there are no values."""
    largest = 0
    for _, records, _ in read_columns(reader, units, [sagemaker.KEYS], bytes_in=units.size, progress=progress):
        lists: Any = records.column(sagemaker.KEYS)
        largest = max(largest, pc.max(lists.flatten()).as_py() or 0)
    return largest


def _sha256(units: UnitTable, *, code_sha256: str | None, keys: Mapping[str, str], base: Base | None) -> str:
    """Returns the digest of the inputs.

    An extension's digest is computed from the earlier digest and the new units. So planning the same inputs in a single step results in a
    different digest and in different shards.
    """
    sha256 = units_sha256(units, code_sha256)
    if keys:
        sha256 = canonical.sha256({"inputs": sha256, "keys": dict(keys)})
    if base is not None:
        sha256 = canonical.sha256({"before": base.head.inputs_sha256, "added": sha256})
    return sha256


def units_sha256(units: UnitTable, code_sha256: str | None) -> str:
    """Returns a digest of the root, path, size and pin of every unit. The digest doesn't depend on where the inputs are stored."""
    digest = hashlib.sha256((code_sha256 or "").encode())
    for batch in units.batches(["root", "path", "offset", "size", "records", "pin", "extra"]):
        for piece in _json_pieces(batch):
            digest.update(piece)
    return digest.hexdigest()


def _json_pieces(batch: pa.RecordBatch) -> Iterator[bytes]:
    """Yields the columns' canonical JSON in pieces, with the columns sorted by name.

    The function is fast for columns with the same value in all rows.
    """
    separator = b"{"
    for name in sorted(batch.schema.names):
        yield separator + canonical.dumps(name) + b":"
        separator = b","
        values = batch.column(name)
        if len(values) > 1 and pc.all(pc.equal(values, values[0])).as_py():
            text = canonical.dumps(values[0].as_py())
            yield b"[" + (text + b",") * (len(values) - 1) + text + b"]"
        else:
            yield canonical.dumps(values.to_pylist())
    yield b"}"
