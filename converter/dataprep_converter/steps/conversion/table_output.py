"""`output.table`: writes the records as rows of a MaxCompute table, in addition to the files of the data set.

The plan step opens one upload session for the run and stores its id in the run's folder. After making a shard, a worker reads the rows back
from the file and sends them as the block with the shard's number. Sending a block again replaces it. The commit step commits all blocks in
one call, before `_SUCCESS` is written, so no row is visible earlier.

If a session has expired, the plan step opens another, and the blocks are sent again from the files.
"""

import json
import logging
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

import pyarrow as pa

from dataprep_api import canonical, names
from dataprep_api.dataset.report import ManifestFile, ShardReport
from dataprep_api.spec import DataPrepJobSpec
from dataprep_converter.core.errors import BadData, BadSpec, Missing, NotFound, NotWhole, OutputExists, OutputLost
from dataprep_converter.dataset.output_folder import RunFolder
from dataprep_converter.formats.columnar.tables_decoder import spooled_to_file
from dataprep_converter.formats.columnar.tables_encoder import ordered, schema_of
from dataprep_converter.inputs.access import Access
from dataprep_converter.inputs.maxcompute import SessionEnded, Table, Upload
from dataprep_converter.records.feature import FeatureSpec
from dataprep_converter.runtime.retry import retrying
from dataprep_converter.sampling.plan import Plan

logger = logging.getLogger(__name__)

MOST_BLOCKS: Final = 20_000
"""The largest number of blocks in an upload session."""

_ipc: Any = pa.ipc  # the stubs lack some functions


@dataclass(frozen=True)
class _UploadNote:
    """The data about the table that the run's folder stores."""

    uri: str
    session: str
    version: str | None = None
    """The table's version after the rows were committed."""


# --- the plan step ------------------------------------------------------------------------------------------------


def check(spec: DataPrepJobSpec, plan: Plan, features: Sequence[FeatureSpec], folder: RunFolder, access: Access) -> None:
    """Checks that the table can accept the rows.

    Raises BadSpec if there are too many shards, or if columns don't fit; the message names these columns. Raises OutputExists if the table
    has rows that must not be replaced. Also raises the service's errors.
    """
    if spec.output.table is None:
        return
    uri = spec.output.table.uri
    if plan.head.shards > MOST_BLOCKS:
        raise BadSpec(
            f"{uri}: {plan.head.shards:,} shards are too many for an upload session, which takes {MOST_BLOCKS:,} blocks; set fewer in output.shards."
        )
    table = Table(uri, access)
    version = _version(table)
    _check_casts(schema_of(ordered(features)), table.columns(), uri)
    if spec.output.overwrite == "Never" and version is not None and _read_note(folder, uri) is None and (rows := table.session().count):
        raise OutputExists(
            f"{uri} holds {rows:,} row{'s' * (rows != 1)}; overwrite is Never. "
            "Set output.overwrite to IfChanged or Always, or choose another output.table.uri.",
            uri=uri,
        )


def is_untouched(spec: DataPrepJobSpec, folder: RunFolder, access: Access) -> bool:
    """Whether the table hasn't changed since this run committed its rows."""
    if spec.output.table is None:
        return True
    note = _read_note(folder, spec.output.table.uri)
    return note is not None and note.version is not None and note.version == _version(Table(note.uri, access))


def begin(spec: DataPrepJobSpec, folder: RunFolder, access: Access) -> None:
    """Opens an upload session for the run, if it needs one.

    No session is opened if the run's earlier session is still open, or if the run's rows were committed and the table hasn't changed since
    then.
    """
    if spec.output.table is None:
        return
    table = Table(spec.output.table.uri, access)
    note = _read_note(folder, table.uri)
    if note is not None:
        try:
            upload = table.upload(note.session)
            is_left = upload.is_committed and note.version in (None, _version(table))
            if upload.is_open or is_left:
                return
        except SessionEnded as exc:
            logger.info("%s Another session is opened.", exc)
    _write_note(folder, _UploadNote(uri=table.uri, session=table.upload().id))


# --- the work step ------------------------------------------------------------------------------------------------


class TableRows:
    """Sends the rows of shards to the run's upload session."""

    def __init__(self, upload: Upload, columns: pa.Schema, folder: RunFolder, access: Access) -> None:
        self._upload = upload
        self._columns = columns
        self._folder = folder
        self._access = access
        self._uploaded = set() if upload.is_committed else upload.blocks()

    def send(self, report: ShardReport, *, is_new: bool) -> None:
        """Sends the rows of a shard as a block. If the shard was finished earlier, its rows are sent only if its block is missing."""
        if self._upload.is_committed or not report.records_out or (report.number in self._uploaded and not is_new):
            return
        retrying(lambda: self._upload.put(report.number, self._rows(report)), what=f"rows of {report.file}")

    def _rows(self, report: ShardReport) -> Iterator[pa.RecordBatch]:
        uri = self._folder.at(report.file)
        with self._access.store(uri).open(uri) as source, spooled_to_file(source.stream()) as file:
            reader = _ipc.open_file(file, options=_ipc.IpcReadOptions(use_threads=False))
            casts = _check_casts(reader.schema, self._columns, self._upload.uri)
            for number in range(reader.num_record_batches):
                batch = reader.get_batch(number)
                yield pa.RecordBatch.from_arrays([_cast(batch, field, self._upload.uri) for field in casts], schema=casts)


def open_rows(spec: DataPrepJobSpec, folder: RunFolder, access: Access) -> TableRows | None:
    """Returns the sender of rows, or None for a job without a table. Raises OutputLost when the session is over."""
    if spec.output.table is None:
        return None
    table = Table(spec.output.table.uri, access)
    return TableRows(_upload(table, folder), table.columns(), folder, access)


# --- the commit step ----------------------------------------------------------------------------------------------


def commit(spec: DataPrepJobSpec, folder: RunFolder, files: Sequence[ManifestFile], access: Access) -> None:
    """Makes the rows of these files visible. Idempotent.

    Raises Missing, which names the shards without a block, and NotWhole when the number of rows in the table is wrong.
    """
    if spec.output.table is None:
        return
    table = Table(spec.output.table.uri, access)
    upload = _upload(table, folder)
    if not upload.is_committed:
        expected = {number: file.file for number, file in enumerate(files) if file.records}
        uploaded = upload.blocks()
        missing = [file for number, file in expected.items() if number not in uploaded]
        if missing:
            raise Missing(
                f"{table.uri}: the rows of {len(missing)} shard{'s' * (len(missing) != 1)} were not sent: {', '.join(missing[:5])}."
            )
        folder.check_owner()
        upload.commit(set(expected))
    rows, expected_rows = table.session().count, sum(file.records for file in files)
    if rows != expected_rows:
        raise NotWhole(f"{table.uri} has {rows:,} rows after {expected_rows:,} were written: another program is writing to this table.")
    _write_note(folder, _UploadNote(uri=table.uri, session=upload.id, version=_version(table)))


# --- shared by the steps -------------------------------------------------------------------------------------------


def _upload(table: Table, folder: RunFolder) -> Upload:
    note = _read_note(folder, table.uri)
    try:
        upload = table.upload(note.session) if note is not None else None
    except SessionEnded:
        upload = None
    if upload is None or not (upload.is_open or upload.is_committed):
        raise OutputLost(
            f"{table.uri}: the upload session of run {folder.run_id} is over. Start the job again: finished shards are kept, and their rows are sent again.",
            uri=table.uri,
        )
    return upload


def _read_note(folder: RunFolder, uri: str) -> _UploadNote | None:
    content = folder.read(names.upload_file(folder.run_id))
    try:
        note = None if content is None else _UploadNote(**json.loads(content))
    except (ValueError, TypeError):
        note = None  # the note is damaged, so nothing can identify its upload session, which will expire
    return note if note is not None and note.uri == uri else None


def _write_note(folder: RunFolder, note: _UploadNote) -> None:
    folder.put_hidden(names.upload_file(folder.run_id), canonical.dumps(asdict(note)))


def _version(table: Table) -> str | None:
    """Returns the table's version, or None for a partition that doesn't exist yet."""
    try:
        return table.version()
    except NotFound:
        table.columns()
        return None


def _check_casts(features: pa.Schema, columns: pa.Schema, uri: str) -> pa.Schema:
    """Returns the table's columns. Raises BadSpec if a column has no feature that can be cast to the column's type."""
    without_column = [name for name in features.names if name not in columns.names]
    without_feature = [name for name in columns.names if name not in features.names]
    if without_column or without_feature:
        problems = [f"it has no column for the features {', '.join(without_column)}"] if without_column else []
        problems += [f"no feature has the name of its columns {', '.join(without_feature)}"] if without_feature else []
        raise BadSpec(f"{uri}: {'; '.join(problems)}. Give the features the names of its columns.")
    for field in columns:
        kind: Any = features.field(field.name).type
        try:
            pa.nulls(0, kind).cast(field.type)
        except (pa.ArrowException, TypeError) as exc:
            raise BadSpec(f"{uri}: the feature {field.name!r} is {kind}, which can't become the column's {field.type}.") from exc
    return columns


def _cast(batch: pa.RecordBatch, field: "pa.Field[Any]", uri: str) -> Any:
    try:
        # Round each value for a float column to the nearest value of the column's type.
        return batch.column(field.name).cast(field.type, safe=not pa.types.is_floating(field.type))
    except pa.ArrowException as exc:
        raise BadData(f"{uri}: a value of {field.name!r} doesn't fit its column: {exc}", uri=uri) from exc
