"""Stores the joined rows in ranges of record numbers. Each range is a file in a store, and the rows of a file are sorted."""

import io
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa

from dataprep_converter.core.errors import ConvertError
from dataprep_converter.inputs.access import Access
from dataprep_converter.inputs.ranged import RangedFile
from dataprep_converter.readers.joins.part_reader import error_of, text_of
from dataprep_converter.stores import Upload

_arrow: Any = pa  # the type stubs lack some functions

RANGE_RECORDS: Final = 250_000
"""The number of records in a range. One task sorts the rows of a range."""
_FAILED: Final = -1
"""The value of `range` in a row that reports the error that has ended a task."""
_BUFFER: Final = 8 << 20
"""The number of bytes that are read in one request."""
FILES: Final[pa.Schema] = _arrow.schema({"range": pa.int64(), "rows": pa.int64(), "file": pa.string()})
"""The columns of the row that a task returns for each file that it has written."""


@dataclass(frozen=True)
class RangeWriter:
    """Writes ranges to files in a store. Can be pickled."""

    folder: str
    """The URI of the folder."""
    stream: str
    """The beginning of the files' names."""
    columns: Sequence[str]
    """The columns to write. The rows also have the column `n`, by which they are sorted."""
    range_records: int

    def __call__(self, access: Access, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Writes a file for each range, and yields a row of FILES for it. Each attempt of a task writes separate files.

        If the store fails, yields a row that contains the error. If the error were raised, the engine would repeat the task.
        """
        try:
            yield from self._write(access, batches)
        except ConvertError as exc:
            yield failed(exc)

    def _write(self, access: Access, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        file: _File | None = None
        store = access.store(self.folder)
        try:
            for batch in batches:
                for number, rows in self._divided(batch):
                    if file is not None and file.range != number:
                        yield file.finish()
                        file = None
                    if file is None:
                        uri = f"{self.folder}/{self.stream}-{number:06d}-{uuid.uuid4().hex}.arrow"
                        file = _File(store.create(uri), uri, number, rows.schema)
                    file.write(rows)
            if file is not None:
                yield file.finish()
                file = None
        finally:
            if file is not None:
                file.abort()

    def _divided(self, batch: pa.RecordBatch) -> Iterator[tuple[int, pa.RecordBatch]]:
        """Divides a batch at the borders of ranges."""
        ranges = batch.column("n").to_numpy() // self.range_records
        starts = np.flatnonzero(np.diff(ranges, prepend=-1)).tolist()
        records = batch.select(list(self.columns))
        for first, stop in zip(starts, [*starts[1:], batch.num_rows], strict=False):
            yield int(ranges[first]), records.slice(first, stop - first)


class _File:
    """A file with the rows of a range."""

    def __init__(self, upload: Upload, uri: str, number: int, schema: pa.Schema) -> None:
        self.range = number
        self._upload = upload
        self._uri = uri
        self._rows = 0
        self._writer: Any = pa.ipc.new_stream(_arrow.PythonFile(_Sink(upload), "w"), schema)

    def write(self, rows: pa.RecordBatch) -> None:
        self._writer.write_batch(rows)
        self._rows += rows.num_rows

    def finish(self) -> pa.RecordBatch:
        self._writer.close()
        self._upload.commit(replace=False)
        return written(self.range, self._rows, self._uri)

    def abort(self) -> None:
        self._upload.abort()


class _Sink(io.RawIOBase):
    """Receives the bytes that Arrow writes, and passes them to an upload."""

    def __init__(self, upload: Upload) -> None:
        super().__init__()
        self._upload = upload

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        view = memoryview(data).cast("B")
        self._upload.write(view)
        return len(view)


def written(number: int, rows: int, uri: str) -> pa.RecordBatch:
    """The row of FILES that describes a file."""
    return pa.RecordBatch.from_pylist([{"range": number, "rows": rows, "file": uri}], schema=FILES)


def failed(error: ConvertError) -> pa.RecordBatch:
    """The row of FILES that reports a task's error."""
    return written(_FAILED, 0, text_of(error))


def check(files: Sequence[tuple[Any, ...]]) -> None:
    """Raises the error of a task that has failed.

    `files` are rows of FILES that tasks have just returned. Never pass rows that were read from a store, because this function unpickles
    the error.
    """
    for number, _, said in files:
        if number == _FAILED:
            raise error_of(said)


def paths_in_order(files: Sequence[tuple[Any, ...]], *, rows: int) -> list[str]:
    """The paths of the files in the order of their ranges; see `paths_by_range`."""
    paths = paths_by_range(files, rows=rows)
    return [paths[number] for number in sorted(paths)]


def paths_by_range(files: Sequence[tuple[Any, ...]], *, rows: int, of: str = "the join") -> Mapping[int, str]:
    """Maps each range that has a file to the file's path. `files` are rows of FILES. Raises ConvertError unless the files have `rows` rows
    in total and each range has at most one file. `of` describes the rows in the message."""
    paths = {number: path for number, _, path in files}
    found = sum(count for _, count, _ in files)
    if found != rows or len(paths) != len(files):
        raise ConvertError(
            f"The engine lost rows of {of}: {found:,} of {rows:,} rows are in {len(files):,} files of {len(paths):,} ranges. Run the job again."
        )
    return paths


def rows_in_files(paths: Sequence[str], access: Access, *, keeps: bool) -> Iterator[pa.RecordBatch]:
    """Yields the rows of the files. Removes each file after reading it, unless `keeps` is set."""
    for path in paths:
        store = access.store(path)
        with store.open(path) as source:
            yield from pa.ipc.open_stream(_arrow.input_stream(RangedFile(source), buffer_size=_BUFFER))
        if not keeps:
            store.delete(path)
