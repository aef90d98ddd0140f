"""The work of a task. A task can have several attempts, each of which writes all rows of the task's partition.

Each attempt writes complete files into its own hidden folder, whose name is the attempt's id. Attempts don't communicate with each other.
`publishing.py` describes what happens to the files afterwards.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from dataprep_api import names
from dataprep_api.dataset import run_id
from dataprep_api.dataset.plan import PlanHead, Shard, SplitPlan
from dataprep_api.dataset.report import ShardReport
from dataprep_converter.core.errors import BadSpec, ConvertError, NotWhole, OutputLost
from dataprep_converter.dataset.frame_rows import READER
from dataprep_converter.dataset.output_folder import OutputFolder, RunFolder
from dataprep_converter.inputs.access import Access
from dataprep_converter.pipeline.pipeline import Pipeline
from dataprep_converter.pipeline.shard_samples import MOST_RECORDS
from dataprep_converter.pipeline.shard_writer import ShardWriter
from dataprep_converter.sampling.plan import Plan
from dataprep_converter.sampling.units import Unit, UnitTable
from dataprep_frames.columns import PartColumns, first_rows, with_columns
from dataprep_frames.messages import in_words_of_engine
from dataprep_frames.rows import Rows, RowsReader
from dataprep_frames.writing import ROW_BITS, Write, check_unchanged, remove_folder

_FILE_BITS: Final = 20
"""A shard's index has this many low bits for the number of the partition. The higher bits number the files of the partition."""
_MANY: Final = 1 << 62
"""A placeholder for the number of rows of a partition, which is known only after the rows have been written."""


@dataclass(frozen=True)
class WrittenPartition:
    """The report of a successful attempt to the driver."""

    partition: int
    attempt: str
    reports: tuple[bytes, ...] = ()
    """The reports of the files, in the order of their rows."""
    columns: PartColumns | None = None
    """The columns of the rows. The driver needs the columns if it didn't know them before the tasks began."""


@in_words_of_engine
def write_partition(write: Write, batches: Iterable[pa.RecordBatch], *, partition: int, attempt: str) -> WrittenPartition:
    """Writes the rows of a partition as one attempt of its task. Returns the information that the driver needs to publish the files.

    Raises BadSpec for columns that can't be written, and BadData, which names the row, for a row that breaks the format's rules. Raises
    OutputLost if the driver has begun its commit, and NotWhole if the commit can no longer succeed.
    """
    if write.is_skipped:
        return WrittenPartition(partition, attempt)
    number = write.first_partition + partition
    if number >> _FILE_BITS:
        raise BadSpec(
            f"A data set that {write.engine.name} writes can have at most {1 << _FILE_BITS:,} {write.engine.part}s, including those of "
            f"earlier appends. Use {write.engine.fewer} to get fewer.",
        )
    columns = None
    if write.schema is None:
        first, batches = first_rows(batches)
        if first is None:
            return WrittenPartition(partition, attempt)
        columns = PartColumns(partition, first.schema)
        write = with_columns(write, first.schema)
    access = write.access()
    plan = _plan_of_attempt(write, number)
    folder = OutputFolder(write.attempt_uri(attempt), access).of_run(write.run_id)
    reports: list[ShardReport] = []
    with Pipeline(write.spec, write.state, access) as pipeline:
        reader = RowsReader(write.source, write.state, access)
        pipeline.reader.close()
        pipeline.read_from(reader)
        rows = Rows(batches, write.known_schema, write.options, most_in_batch=min(pipeline.most_records, MOST_RECORDS))
        for nth, (split, records) in enumerate(rows.files(write.spec.output.shards.records)):
            if not nth:
                _claim(write, folder, access)
            reader.take(records)
            shard = _shard_of_attempt(write, split, number, nth, first=reader.rows)
            writer = ShardWriter(
                shard,
                plan=plan,
                pipeline=pipeline,
                folder=folder,
                access=access,
                attempt=f"task {attempt}",
                reads_ahead=write.engine.reads_ahead,
            )
            writer.encode(lambda _: None)
            reports.append(writer.publish())
    return WrittenPartition(partition, attempt, tuple(report.to_bytes() for report in reports), columns)


def _claim(write: Write, folder: RunFolder, access: Access) -> None:
    """Begins to write into the folder of an attempt. An attempt that comes too late leaves no files."""
    _check_not_committed(write, access)
    folder.claim()
    try:
        # The commit may have removed the folders of all attempts before this folder was made.
        _check_not_committed(write, access)
    except ConvertError:
        remove_folder(folder.uri, access)
        raise


def _check_not_committed(write: Write, access: Access) -> None:
    """Raises OutputLost if the driver has begun to publish this write, and NotWhole if another run has changed the data set."""
    output = OutputFolder(write.spec.output.uri, access)
    try:
        owner = output.owner()
    except NotWhole:
        owner = None  # the commit replaces a damaged OWNER
    if owner is not None and owner.run_id == write.run_id:
        raise OutputLost(f"{output.uri}: the driver has begun to publish other attempts, so this attempt comes too late.", uri=output.uri)
    check_unchanged(write, output)


def _shard_of_attempt(write: Write, split: str, number: int, nth: int, *, first: int) -> Shard:
    """Returns the n-th file of partition `number` as a shard.

    Some formats use the shard's numbers in keys, so no other file may have the same numbers.
    """
    return Shard(
        number=nth,
        split=split,
        index=nth << _FILE_BITS | number,
        file=names.file_name(write.template, split=split, shard=nth, shards=nth + 1, ext=write.extension),
        first=(number << ROW_BITS) + first,
        records=0,
    )


def _plan_of_attempt(write: Write, number: int) -> Plan:
    """Returns a plan for the rows of one partition. It is never stored."""
    units = UnitTable.of([Unit(root=0, path=str(number), uri=write.engine.part_uri(number), records=_MANY, size=0, pin="")])
    split = SplitPlan(name=write.options.split, ranges=[(0, _MANY)], records=_MANY, shards=1, template=write.template)
    head = PlanHead(
        run_id=write.run_id,
        encoding_version=run_id.ENCODING_VERSION,
        parts=write.parts,
        spec_sha256="",
        inputs_sha256=write.inputs_sha256,
        units_sha256="",
        reader=READER,
        samples=_MANY,
        bytes_in=0,
        splits=[split],
        extension=write.extension,
        tasks=1,
    )
    return Plan(head=head, sha256="", units=units)
