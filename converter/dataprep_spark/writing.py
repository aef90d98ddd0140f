"""Writes a DataFrame: what the driver decides before the tasks begin, and the work of a task.

Each attempt of a task writes complete files into a hidden folder of its own, which is named by the attempt's id. An attempt knows nothing of
other attempts. `publishing.py` describes what happens to the files afterwards.
"""

import secrets
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, Final

import pyarrow as pa

from dataprep_api import names
from dataprep_api.dataset import run_id
from dataprep_api.dataset.plan import PlanHead, Shard, SplitPlan
from dataprep_api.dataset.report import ShardReport, Success
from dataprep_api.spec import DataPrepJobSpec
from dataprep_api.spec.sources.arrow import ArrowSource
from dataprep_converter.core.errors import BadSpec, ConvertError, NotWhole, OutputExists, OutputLost
from dataprep_converter.dataset import spark_rows
from dataprep_converter.dataset.output_folder import OutputFolder, RunFolder
from dataprep_converter.dataset.stored_folder import StoredFolder
from dataprep_converter.formats.registry import encoder_class
from dataprep_converter.inputs.access import Access
from dataprep_converter.pipeline.pipeline import Pipeline
from dataprep_converter.pipeline.shard_samples import MOST_RECORDS
from dataprep_converter.pipeline.shard_writer import ShardWriter
from dataprep_converter.sampling.plan import Plan
from dataprep_converter.sampling.units import Unit, UnitTable
from dataprep_converter.stores import MovesFiles, StoreSettings, WritesAside
from dataprep_converter.stores.read_only import ReadOnlyStore
from dataprep_spark.messages import in_words_of_spark
from dataprep_spark.options import Mode, WriteOptions, found_name
from dataprep_spark.rows import Rows, RowsReader, frozen_state

ROW_BITS: Final = 33
"""A row's number is the partition's number, followed by this many bits for the row's number in the partition. Spark's
`monotonically_increasing_id` numbers rows like this."""
_FILE_BITS: Final = 20
"""The number of a file of a partition is placed above this many bits for the partition's number."""
_MANY: Final = 1 << 62
"""Stands for the number of rows of a partition, which isn't known before the rows have been written."""


@dataclass(frozen=True)
class Write:
    """What all processes of one `df.write` know. The driver sends it to the tasks."""

    options: WriteOptions
    settings: tuple[StoreSettings, ...]
    run_id: str
    inputs_sha256: str
    """A random number, which makes the run id random: a DataFrame has no pins."""
    schema: pa.Schema
    """The columns to write."""
    state: dict[str, Any]
    """The reader's state: the columns as the pipeline sees them."""
    first_partition: int = 0
    """The number of the first partition. Smaller numbers belong to earlier writes, if this write appends."""
    success: Success | None = None
    """The `_SUCCESS` of the data set that the folder held when this write began. If it differs in the commit, the commit is refused."""
    existing_template: str | None = None
    """The template of the files' names in the data set to which this write appends."""
    is_skipped: bool = False
    """Whether nothing is written, because the mode is `ignore` and there is a data set already."""

    @property
    def spec(self) -> DataPrepJobSpec:
        """The job that would write the data set."""
        return self.options.spec

    @property
    def mode(self) -> Mode:
        """The save mode."""
        return self.options.mode

    @property
    def source(self) -> ArrowSource:
        """The source in the spec."""
        return source_of(self.spec)

    @property
    def parts(self) -> dict[str, int]:
        """The versions of the rules that affect the bytes."""
        return run_id.versions(self.spec)

    @property
    def template(self) -> str:
        """The template of the files' names."""
        return self.existing_template or names.file_name_template(
            self.spec.output.template, shards=2, format_=self.spec.output.format, several_splits=self.options.split_column is not None
        )

    @property
    def extension(self) -> str:
        """The extension of the files' names."""
        return encoder_class(self.spec.output.format).extension(self.spec.output)

    def access(self) -> Access:
        """Returns access to the stores, with the rules of this write."""
        access = Access(self.settings)
        access.write_to(self.spec.output.uri)
        access.follow(self.spec, self.parts)
        return access

    def attempt_uri(self, attempt: str) -> str:
        """Returns the folder of one attempt of a task."""
        return names.join(self.spec.output.uri, f"{names.intermediate_folder(self.run_id)}/{attempt}")


@dataclass(frozen=True)
class WrittenPartition:
    """What a successful attempt of a task tells the driver."""

    partition: int
    attempt: str
    reports: tuple[bytes, ...] = ()
    """The reports of the files, in the order of their rows."""


def source_of(spec: DataPrepJobSpec) -> ArrowSource:
    """Returns the source in the spec of a DataFrame's data set."""
    source = spec.data.member
    if not isinstance(source, ArrowSource):
        raise TypeError("the source of a DataFrame's data set is arrow")
    return source


def planned_write(options: WriteOptions, schema: pa.Schema, settings: Iterable[StoreSettings]) -> Write:
    """Decides how a DataFrame with these columns is written, before a task begins. Changes nothing in the store.

    Raises BadSpec for columns or a store that can't be written, and OutputExists if the save mode is `errorifexists` and there is a data
    set.
    """
    spec = options.spec
    if options.split_column is not None:
        options = replace(options, split_column=_split_column(options.split_column, schema))
        schema = pa.schema([each for each in schema if each.name != options.split_column])
    inputs_sha256 = secrets.token_hex(32)
    write = Write(
        options=options,
        settings=tuple(settings),
        run_id=run_id.run_id(spec, inputs_sha256=inputs_sha256),
        inputs_sha256=inputs_sha256,
        schema=schema,
        state={},
    )
    fault = names.template_fault(write.template, several_splits=options.split_column is not None, several_shards=True)
    if fault:
        raise BadSpec(f"fileName {write.template!r}: {fault}.")
    access = write.access()
    _check_store(spec.output.uri, access)
    success = OutputFolder(spec.output.uri, access).success()
    if success is not None and write.mode == "ignore":
        return replace(write, is_skipped=True)
    if success is not None and write.mode == "errorifexists":
        raise OutputExists(
            f"{spec.output.uri} holds the finished data set of run {success.run_id}, and the save mode is errorifexists. Use the mode overwrite, "
            "append or ignore, or choose another URI.",
            uri=spec.output.uri,
        )
    write = replace(write, state=frozen_state(schema, write.source, access.structs), success=success)
    with Pipeline(spec, write.state, access) as pipeline, pipeline.encoder():
        pass  # the constructors raise BadSpec for features that the format can't store
    return write


def _split_column(name: str, schema: pa.Schema) -> str:
    """Returns the DataFrame's column with the names of splits. Raises BadSpec if there is none, or if it isn't text."""
    found = found_name(name, schema.names)
    if found is None:
        raise BadSpec(f"The DataFrame has no column {name!r}, which the option splitColumn names: it has {', '.join(schema.names)}.")
    if not pa.types.is_string(schema.field(found).type):
        raise BadSpec(
            f"The column {found!r} (splitColumn) has the names of splits, so it must be text, but it is {schema.field(found).type}."
        )
    return found


def _check_store(uri: str, access: Access) -> None:
    """Raises BadSpec for a store that can't be written file by file."""
    store = access.store(uri)
    if isinstance(store, ReadOnlyStore):
        raise store.refusal(uri)
    if isinstance(store, WritesAside):
        raise BadSpec(
            f"{uri}: Spark can't write to the Hub, where each file would become visible as soon as it is written. Write to another store, and "
            "copy the finished data set with dataprep copy.",
            uri=uri,
        )


@in_words_of_spark()
def write_partition(write: Write, batches: Iterable[pa.RecordBatch], *, partition: int, attempt: str) -> WrittenPartition:
    """Writes the rows of a partition as one attempt of its task. Returns what the driver needs to publish the files.

    Raises BadData naming the row, if a row can't be stored as the format's rules demand, and OutputLost or NotWhole if the driver has begun
    its commit or can't succeed any more.
    """
    if write.is_skipped:
        return WrittenPartition(partition, attempt)
    number = write.first_partition + partition
    if number >> _FILE_BITS:
        raise BadSpec(
            f"A data set that Spark writes has at most {1 << _FILE_BITS:,} partitions, those of earlier appends included. Use df.coalesce() "
            "to have fewer.",
        )
    access = write.access()
    plan = _plan_of_attempt(write, number)
    folder = OutputFolder(write.attempt_uri(attempt), access).of_run(write.run_id)
    reports: list[ShardReport] = []
    with Pipeline(write.spec, write.state, access) as pipeline:
        reader = RowsReader(write.source, write.state, access)
        pipeline.reader.close()
        pipeline.read_from(reader)
        rows = Rows(batches, write.schema, write.options, most_in_batch=min(pipeline.most_records, MOST_RECORDS))
        for nth, (split, records) in enumerate(rows.files(write.spec.output.shards.records)):
            if not nth:
                _claim(write, folder, access)
            reader.take(records)
            shard = _shard_of_attempt(write, split, number, nth, first=reader.rows)
            writer = ShardWriter(shard, plan=plan, pipeline=pipeline, folder=folder, access=access, attempt=f"task {attempt}")
            writer.encode(lambda _: None)
            reports.append(writer.publish())
    return WrittenPartition(partition, attempt, tuple(report.to_bytes() for report in reports))


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


def check_unchanged(write: Write, folder: OutputFolder) -> None:
    """Raises NotWhole if the folder no longer holds the data set that it held when this write began."""
    before, now = write.success, folder.success()
    if now == before:
        return
    if now is None and before is not None:
        what = f"The data set of run {before.run_id} in {folder.uri} is no longer finished: another run replaces it, or its _SUCCESS was removed"
    else:
        what = f"Another run, {now and now.run_id}, has finished a data set in {folder.uri} while these rows were written"
    raise NotWhole(f"{what}. Nothing was changed there. Write the DataFrame again.", uri=folder.uri)


def remove_folder(uri: str, access: Access) -> None:
    """Removes a folder of attempts with all files and uploads in it."""
    store = access.store(uri)
    if isinstance(store, MovesFiles):
        store.remove_folder(uri)
        return
    folder = StoredFolder(uri, access)
    for path, _ in list(folder.all_files()):
        folder.delete(path)
    folder.sweep()


def _shard_of_attempt(write: Write, split: str, number: int, nth: int, *, first: int) -> Shard:
    """Returns the n-th file of partition `number` as a shard.

    The shard's numbers become part of some formats' keys, so they must differ from those of all other files.
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
    units = UnitTable.of([Unit(root=0, path=str(number), uri=f"spark:partition-{number}", records=_MANY, size=0, pin="")])
    split = SplitPlan(name=write.options.split, ranges=[(0, _MANY)], records=_MANY, shards=1, template=write.template)
    head = PlanHead(
        run_id=write.run_id,
        encoding_version=run_id.ENCODING_VERSION,
        parts=write.parts,
        spec_sha256="",
        inputs_sha256=write.inputs_sha256,
        units_sha256="",
        reader=spark_rows.READER,
        samples=_MANY,
        bytes_in=0,
        splits=[split],
        extension=write.extension,
        tasks=1,
    )
    return Plan(head=head, sha256="", units=units)
