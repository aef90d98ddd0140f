"""The source `plugin` reads files in a custom format with a function that the user provides.

Each file is a unit. The planner runs the function over every file to count the records and to freeze the columns. If records are read in
order, a worker runs the function once over each file. If records are read out of order, the worker stores the function's results in an
unlinked temporary file in $TMPDIR.
"""

import io
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from typing import Any, ClassVar, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dataprep_api.spec.sources.plugin import PluginSource
from dataprep_converter.core.closeable import Closeable, close_generator
from dataprep_converter.core.errors import BadData, BadSample, InputChanged
from dataprep_converter.core.lru import LruCache
from dataprep_converter.core.tensors import NUMPY_NAMES, Array, to_arrow
from dataprep_converter.inputs.access import Access
from dataprep_converter.readers import Discovery, Listing
from dataprep_converter.readers.base.blocks import Block, BlockReader
from dataprep_converter.readers.base.listing import input_files
from dataprep_converter.records.schemas import parse_schema, schema_text
from dataprep_converter.runtime import plugins
from dataprep_converter.runtime.temporary import TemporaryFile, room_for
from dataprep_converter.sampling.units import Unit
from dataprep_converter.stores import Input

_GROUP: Final = 512
"""The number of dicts that are combined into a batch."""
_BUFFER: Final = 1 << 20
_OPEN_FILES: Final = 4


class PluginReader(BlockReader):
    """See the module. The reader's columns are the columns of the function's records."""

    default_label: ClassVar[str] = "label"

    @staticmethod
    def discover(source: PluginSource, access: Access) -> Discovery:
        """Runs the function over every file.

        Raises NotFound for a URI without files. If the function fails, raises BadData, which names the file.
        """
        return Discovery(_units(source, access))

    def __init__(self, source: PluginSource, state: Mapping[str, Any], access: Access) -> None:
        super().__init__(access)
        self._source = source
        self._schema = parse_schema(state["schema"]) if "schema" in state else pa.schema([])
        self._runs: LruCache[str, _PluginRun] = self._files.views(_OPEN_FILES, close=_PluginRun.close)

    def schema(self) -> pa.Schema:
        """The columns that the spec declares, or else the columns of the first record."""
        return self._schema

    def parts(self, unit: Unit, source: Input, rows: npt.NDArray[np.int64]) -> Iterator[tuple[int, Block]]:
        """The function's batches that contain the rows."""
        run = self._runs.get(unit.uri, lambda: _PluginRun(unit, lambda: _batches(self._source, source, unit.uri, self._schema)))
        for first, records in run.parts(int(rows.min()), int(rows.max())):
            yield first, Block.of(records)


class _PluginRun(Closeable):
    """A file that the user's function is reading."""

    def __init__(self, unit: Unit, start: Callable[[], Iterator[pa.RecordBatch]]) -> None:
        self._unit = unit
        self._start = start
        self._batches = start()
        self._latest: tuple[int, pa.RecordBatch] | None = None
        self._batch_file: _BatchFile | None = None

    def parts(self, low: int, high: int) -> Iterator[tuple[int, pa.RecordBatch]]:
        """Yields a pair for each batch that contains records from `low` to `high` (inclusive): the number of the batch's first record, and
        the batch."""
        if self._latest is not None and low < self._latest[0] and self._batch_file is None:
            self._batch_file = _BatchFile(self._start())
        if self._batch_file is not None:
            yield from self._batch_file.parts(low, high)
            return
        while True:
            if self._latest is not None:
                first, batch = self._latest
                if first + batch.num_rows > low:
                    yield first, batch
                if first + batch.num_rows > high:
                    return
            following = 0 if self._latest is None else self._latest[0] + self._latest[1].num_rows
            batch_or_end = next(self._batches, None)
            if batch_or_end is None:
                raise InputChanged(
                    f"{self._unit.uri}: the plug-in made {self._unit.records:,} records when the job was planned, but made only {following:,} now.",
                    uri=self._unit.uri,
                )
            self._latest = (following, batch_or_end)

    def close(self) -> None:
        """Stops the function and removes the temporary file."""
        close_generator(self._batches)
        if self._batch_file is not None:
            self._batch_file.close()


class _BatchFile(Closeable):
    """A temporary file in Arrow's IPC format with all batches that the function produces from an input file."""

    def __init__(self, batches: Iterator[pa.RecordBatch]) -> None:
        """Writes all batches to the file. Raises StoreFull if the disk is full."""
        self._firsts: list[int] = [0]
        with ExitStack() as failed:
            self._file = failed.enter_context(TemporaryFile("the records of a plug-in"))
            writer: Any = None
            for batch in batches:
                with room_for(self._file.what):
                    writer = writer or pa.ipc.new_file(self._file.file, batch.schema)
                    writer.write_batch(batch)
                self._firsts.append(self._firsts[-1] + batch.num_rows)
            if writer is not None:
                with room_for(self._file.what):
                    writer.close()
            self._batches: Any = pa.ipc.open_file(self._file.file)
            failed.pop_all()

    def parts(self, low: int, high: int) -> Iterator[tuple[int, pa.RecordBatch]]:
        last = int(np.searchsorted(self._firsts, high, side="right"))
        for number in range(int(np.searchsorted(self._firsts, low, side="right")) - 1, last):
            yield self._firsts[number], self._batches.get_batch(number)

    def close(self) -> None:
        """Removes the file."""
        self._file.close()


def _units(spec: PluginSource, access: Access) -> Listing[Unit]:
    schema = plugins.schema_of(spec.columns) if spec.columns is not None else None
    for root, path, entry in input_files(access, spec.uris):
        records = 0
        with access.store(entry.uri).open(entry.uri) as source:
            for batch in _batches(spec, source, entry.uri, schema):
                if schema is None:
                    schema = batch.schema
                records += batch.num_rows
        if records:
            yield Unit(root=root, path=path, uri=entry.uri, records=records, size=entry.size, pin=entry.pin)
    return {} if schema is None else {"schema": schema_text(schema)}


def _batches(spec: PluginSource, source: Input, uri: str, schema: pa.Schema | None) -> Iterator[pa.RecordBatch]:
    """Yields the records that the function produces from a file, as batches with the same schema. Raises BadData, which names the file and
    the record, for any error."""
    of = f"The plug-in {spec.callable!r}"
    function = plugins.load(spec.callable, of="source.plugin")
    count = 0
    rows: list[Mapping[str, Any]] = []
    name = uri.rpartition("/")[2]
    stream = io.BufferedReader(_Stream(source), _BUFFER)

    def finish(items: list[Mapping[str, Any]]) -> pa.RecordBatch:
        nonlocal schema, count
        try:
            batch = plugins.table(items, schema)
        except BadSample as exc:
            raise BadData(f"{uri}: {of}: after {count} record{'s' * (count != 1)}: {exc}.", uri=uri) from exc
        schema = batch.schema
        count += batch.num_rows
        return batch

    try:
        items = iter(function(stream, name, **spec.options.values()))
    except Exception as exc:  # whatever the user's code raises
        raise BadData(f"{uri}: {of} failed: {plugins.describe(exc, function)}.", uri=uri) from exc
    while True:
        try:
            item = next(items, None)
        except Exception as exc:  # whatever the user's code raises
            raise BadData(
                f"{uri}: {of} failed after {count + len(rows)} record{'s' * (count + len(rows) != 1)}: {plugins.describe(exc, function)}.",
                uri=uri,
            ) from exc
        if rows and (item is None or not isinstance(item, Mapping) or len(rows) >= _GROUP):
            yield finish(rows)
            rows = []
        if item is None:
            return
        if isinstance(item, Mapping):
            rows.append(item)
            continue
        for batch in _to_batches(item, uri, of):
            fitting = _cast(batch, schema, uri, of)
            schema = fitting.schema
            count += fitting.num_rows
            if fitting.num_rows:
                yield fitting


def _to_batches(item: Any, uri: str, of: str) -> list[pa.RecordBatch]:
    if isinstance(item, pa.RecordBatch):
        return [item]
    if isinstance(item, pa.Table):
        return item.to_batches()
    if isinstance(item, np.ndarray) and item.dtype.names:
        return [pa.RecordBatch.from_arrays([_from_numpy(item[name], uri, of) for name in item.dtype.names], names=list(item.dtype.names))]
    if isinstance(item, np.ndarray) and item.ndim:
        return [pa.RecordBatch.from_arrays([_from_numpy(item, uri, of)], names=["data"])]
    raise BadData(f"{uri}: {of} made a {type(item).__name__}; expected a dict, an Arrow batch or table, or a numpy array.", uri=uri)


def _from_numpy(values: npt.NDArray[Any], uri: str, of: str) -> Array:
    native = values.astype(values.dtype.newbyteorder("="), copy=False)
    try:
        return to_arrow(native) if native.dtype.name in NUMPY_NAMES.values() else pa.array(native)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError) as exc:
        raise BadData(f"{uri}: {of} made an array of {values.dtype}{list(values.shape)}, which records can't contain.", uri=uri) from exc


def _cast(batch: pa.RecordBatch, schema: pa.Schema | None, uri: str, of: str) -> pa.RecordBatch:
    if schema is None or batch.schema.equals(schema):
        return batch
    try:
        return batch.select(schema.names).cast(schema)
    except (KeyError, pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, ValueError) as exc:
        shown = ", ".join(f"{field.name}: {field.type}" for field in batch.schema)
        expected = ", ".join(f"{field.name}: {field.type}" for field in schema)
        raise BadData(f"{uri}: {of} made a batch of {shown}; expected {expected}.", uri=uri) from exc


class _Stream(io.RawIOBase):
    """A seekable binary stream over an `Input`."""

    def __init__(self, source: Input) -> None:
        self._source = source
        self._position = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        data = self._source.read_at(self._position, len(buffer))
        buffer[: len(data)] = data
        self._position += len(data)
        return len(data)

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._source.size}[whence]
        self._position = max(0, base + offset)
        return self._position

    def tell(self) -> int:
        return self._position
