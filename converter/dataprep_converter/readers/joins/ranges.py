"""The joined rows, laid down in ranges of their records' numbers: each range is a file, and the rows of a file are sorted."""

import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa

from dataprep_converter.core.errors import ConvertError

_arrow: Any = pa  # the type stubs lack some functions

RANGE_RECORDS: Final = 250_000
"""The number of records of a range. Its rows are sorted by one task."""
FILES: Final[pa.Schema] = _arrow.schema({"range": pa.int64(), "rows": pa.int64(), "file": pa.string()})
"""What a task says about each file that it has written."""


@dataclass(frozen=True)
class RangeWriter:
    """Writes ranges to files. Can be pickled."""

    folder: str
    stream: str
    """The beginning of the files' names."""
    columns: Sequence[str]
    """The columns to write. The rows also have the column `n`, by which they are sorted."""
    range_records: int

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Writes a file for each range, and yields a row of FILES for it. Each attempt of a task writes files of its own."""
        file: _File | None = None
        try:
            for batch in batches:
                for number, rows in self._divided(batch):
                    if file is not None and file.range != number:
                        yield file.finish()
                        file = None
                    if file is None:
                        file = _File(Path(self.folder) / f"{self.stream}-{number:06d}-{uuid.uuid4().hex}.arrow", number, rows.schema)
                    file.write(rows)
            if file is not None:
                yield file.finish()
                file = None
        finally:
            if file is not None:
                file.remove()

    def _divided(self, batch: pa.RecordBatch) -> Iterator[tuple[int, pa.RecordBatch]]:
        """Divides a batch at the borders of ranges."""
        ranges = batch.column("n").to_numpy() // self.range_records
        starts = np.flatnonzero(np.diff(ranges, prepend=-1)).tolist()
        records = batch.select(list(self.columns))
        for first, stop in zip(starts, [*starts[1:], batch.num_rows], strict=False):
            yield int(ranges[first]), records.slice(first, stop - first)


class _File:
    """A file with the rows of a range."""

    def __init__(self, path: Path, number: int, schema: pa.Schema) -> None:
        self.range = number
        self._path = path
        self._rows = 0
        self._writer: Any = pa.ipc.new_stream(str(path), schema)

    def write(self, rows: pa.RecordBatch) -> None:
        self._writer.write_batch(rows)
        self._rows += rows.num_rows

    def finish(self) -> pa.RecordBatch:
        self._writer.close()
        return pa.RecordBatch.from_pylist([{"range": self.range, "rows": self._rows, "file": str(self._path)}], schema=FILES)

    def remove(self) -> None:
        self._writer.close()
        self._path.unlink(missing_ok=True)


def paths_in_order(files: Sequence[tuple[Any, ...]], *, rows: int) -> list[str]:
    """The paths of the files in the order of their ranges. `files` are rows of FILES, and `rows` is the number of rows that they must have.
    Raises ConvertError if there are others."""
    paths: Mapping[int, str] = {number: path for number, _, path in files}
    found = sum(count for _, count, _ in files)
    if found != rows or len(paths) != len(files):
        raise ConvertError(
            f"The engine lost rows of the join: {found:,} of {rows:,} rows are in {len(files):,} files of {len(paths):,} ranges. Run the job again."
        )
    return [paths[number] for number in sorted(paths)]


def rows_in_files(paths: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """Yields the rows of the files, and removes each file when it has been read."""
    for path in paths:
        with pa.memory_map(path) as file:
            yield from pa.ipc.open_stream(file)
        Path(path).unlink()
