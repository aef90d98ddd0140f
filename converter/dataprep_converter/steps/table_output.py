"""`output.table`: the records as rows of a MaxCompute table, beside the data set in files.

The plan step opens one upload session for the run, and keeps its id in the run's folder. Who has made a shard sends its rows, read back from the
file, as the block of the shard's number; a block that is sent again replaces itself. The commit step commits all blocks at once, before
`_SUCCESS`: until then nobody sees a row. A session that ended is followed by another one, to which the blocks are sent again from the files.
"""

import json
import logging
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

import pyarrow as pa

from dataprep_api import canonical, names
from dataprep_api.dataset.report import ShardReport
from dataprep_api.spec import DataPrepJobSpec
from dataprep_converter.core.errors import BadData, BadSpec, Missing, NotFound, NotWhole, OutputExists, OutputLost
from dataprep_converter.dataset.output_folder import RunFolder
from dataprep_converter.formats.columnar.tables_decoder import spooled
from dataprep_converter.formats.columnar.tables_encoder import ordered, schema_of
from dataprep_converter.inputs.access import Access
from dataprep_converter.inputs.maxcompute import SessionEnded, Table, Upload
from dataprep_converter.records.feature import FeatureSpec
from dataprep_converter.runtime.retry import retrying
from dataprep_converter.sampling.plan import Plan

logger = logging.getLogger(__name__)

MOST_BLOCKS: Final = 20_000
"""Of an upload session."""

_ipc: Any = pa.ipc  # the stubs don't know all functions


@dataclass(frozen=True)
class _Begun:
    """What the run's folder says of the table."""

    uri: str
    session: str
    version: str | None = None
    """Of the table once the rows were there."""


# --- the plan step ------------------------------------------------------------------------------------------------


def check(spec: DataPrepJobSpec, plan: Plan, features: Sequence[FeatureSpec], folder: RunFolder, access: Access) -> None:
    """Raises BadSpec naming columns that don't fit or shards that are too many, OutputExists for rows that may not be replaced, and what the service says."""
    if spec.output.table is None:
        return
    uri = spec.output.table.uri
    if plan.head.shards > MOST_BLOCKS:
        raise BadSpec(
            f"{uri}: {plan.head.shards:,} shards, and an upload session takes {MOST_BLOCKS:,} blocks; ask for fewer in output.shards."
        )
    table = Table(uri, access)
    version = _version(table)
    _casts(schema_of(ordered(features)), table.columns(), uri)
    if spec.output.overwrite == "Never" and version is not None and _begun(folder, uri) is None and (rows := table.session().count):
        raise OutputExists(
            f"{uri} holds {rows:,} rows; overwrite is Never. Set output.overwrite to IfChanged or Always, or another output.table.uri.",
            uri=uri,
        )


def is_untouched(spec: DataPrepJobSpec, folder: RunFolder, access: Access) -> bool:
    """Whether the table still is as this run left it."""
    if spec.output.table is None:
        return True
    begun = _begun(folder, spec.output.table.uri)
    return begun is not None and begun.version is not None and begun.version == _version(Table(begun.uri, access))


def begin(spec: DataPrepJobSpec, folder: RunFolder, access: Access) -> None:
    """Opens the run's upload session, unless there is one that takes blocks, or that was committed to a table that nobody changed since."""
    if spec.output.table is None:
        return
    table = Table(spec.output.table.uri, access)
    begun = _begun(folder, table.uri)
    if begun is not None:
        try:
            upload = table.upload(begun.session)
            is_left = upload.is_committed and begun.version in (None, _version(table))
            if upload.is_open or is_left:
                return
        except SessionEnded as exc:
            logger.info("%s Another one is opened.", exc)
    _note(folder, _Begun(uri=table.uri, session=table.upload().id))


# --- the work step ------------------------------------------------------------------------------------------------


class TableRows:
    """A worker's end of the upload session."""

    def __init__(self, upload: Upload, columns: pa.Schema, folder: RunFolder, access: Access) -> None:
        self._upload = upload
        self._columns = columns
        self._folder = folder
        self._access = access
        self._there = set() if upload.is_committed else upload.blocks()

    def send(self, report: ShardReport, *, is_new: bool) -> None:
        """The rows of a shard, as a block. One that was finished before is sent only if its block isn't there."""
        if self._upload.is_committed or not report.records_out or (report.number in self._there and not is_new):
            return
        retrying(lambda: self._upload.put(report.number, self._rows(report)), what=f"rows of {report.file}")

    def _rows(self, report: ShardReport) -> Iterator[pa.RecordBatch]:
        uri = self._folder.at(report.file)
        with self._access.store(uri).open(uri) as source, spooled(source.stream()) as file:
            reader = _ipc.open_file(file, options=_ipc.IpcReadOptions(use_threads=False))
            casts = _casts(reader.schema, self._columns, self._upload.uri)
            for number in range(reader.num_record_batches):
                batch = reader.get_batch(number)
                yield pa.RecordBatch.from_arrays([_cast(batch, field, self._upload.uri) for field in casts], schema=casts)


def opened(spec: DataPrepJobSpec, folder: RunFolder, access: Access) -> TableRows | None:
    """The rows' way to the table, or None for a job without one. Raises OutputLost when the session is over."""
    if spec.output.table is None:
        return None
    table = Table(spec.output.table.uri, access)
    return TableRows(_upload(table, folder), table.columns(), folder, access)


# --- the commit step ----------------------------------------------------------------------------------------------


def commit(spec: DataPrepJobSpec, folder: RunFolder, reports: Sequence[ShardReport], access: Access) -> None:
    """Makes the rows visible, once. Raises Missing naming shards whose block isn't there, NotWhole when the table has another number of rows."""
    if spec.output.table is None:
        return
    table = Table(spec.output.table.uri, access)
    upload = _upload(table, folder)
    if not upload.is_committed:
        expected = {report.number: report.file for report in reports if report.records_out}
        there = upload.blocks()
        missing = [file for number, file in expected.items() if number not in there]
        if missing:
            raise Missing(f"{table.uri}: the rows of {len(missing)} shards were not sent: {', '.join(missing[:5])}.")
        folder.check_owner()
        upload.commit(set(expected))
    rows, planned = table.session().count, sum(report.records_out for report in reports)
    if rows != planned:
        raise NotWhole(f"{table.uri} has {rows:,} rows after {planned:,} were written: somebody else writes to it.")
    _note(folder, _Begun(uri=table.uri, session=upload.id, version=_version(table)))


# --- what both sides need -----------------------------------------------------------------------------------------


def _upload(table: Table, folder: RunFolder) -> Upload:
    begun = _begun(folder, table.uri)
    try:
        upload = table.upload(begun.session) if begun is not None else None
    except SessionEnded:
        upload = None
    if upload is None or not (upload.is_open or upload.is_committed):
        raise OutputLost(
            f"{table.uri}: the upload session of run {folder.run_id} is over. Start the job again: finished shards stay, and their rows are sent again.",
            uri=table.uri,
        )
    return upload


def _begun(folder: RunFolder, uri: str) -> _Begun | None:
    found = folder.read(names.upload_file(folder.run_id))
    try:
        begun = None if found is None else _Begun(**json.loads(found))
    except (ValueError, TypeError):
        begun = None  # damaged: a session that nobody knows ends by itself
    return begun if begun is not None and begun.uri == uri else None


def _note(folder: RunFolder, begun: _Begun) -> None:
    folder.put_hidden(names.upload_file(folder.run_id), canonical.dumps(asdict(begun)))


def _version(table: Table) -> str | None:
    """None for a partition that isn't there yet."""
    try:
        return table.version()
    except NotFound:
        table.columns()
        return None


def _casts(given: pa.Schema, wanted: pa.Schema, uri: str) -> pa.Schema:
    """The table's columns. Raises BadSpec unless each is a feature of a type that becomes its own."""
    lost = [name for name in given.names if name not in wanted.names]
    absent = [name for name in wanted.names if name not in given.names]
    if lost or absent:
        said = [f"it has no column for the features {', '.join(lost)}"] if lost else []
        said += [f"no feature has the name of its columns {', '.join(absent)}"] if absent else []
        raise BadSpec(f"{uri}: {'; '.join(said)}. Name features by its columns.")
    for field in wanted:
        kind: Any = given.field(field.name).type
        try:
            pa.nulls(0, kind).cast(field.type)
        except (pa.ArrowException, TypeError) as exc:
            raise BadSpec(f"{uri}: the feature {field.name!r} is {kind}, which can't become the column's {field.type}.") from exc
    return wanted


def _cast(batch: pa.RecordBatch, field: "pa.Field[Any]", uri: str) -> Any:
    try:
        # A column of float takes a double as near as it can.
        return batch.column(field.name).cast(field.type, safe=not pa.types.is_floating(field.type))
    except pa.ArrowException as exc:
        raise BadData(f"{uri}: a value of {field.name!r} doesn't fit its column: {exc}", uri=uri) from exc
