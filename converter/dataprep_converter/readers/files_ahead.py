"""Samples that are whole files, one unit each, read in order; where a file takes long to come, by a few threads ahead of the batch that is
being made, within a bound of bytes. What the bytes mean is the readers' own business.
"""

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any, Generic, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dataprep_converter.access import Access, Store
from dataprep_converter.errors import BadSample, InputChanged
from dataprep_converter.readers import SAMPLE, Bad, Batch, Raw
from dataprep_converter.readers.inputs import open_pinned
from dataprep_converter.tensors import Array, binary
from dataprep_converter.units import Units

_THREADS = 8
_FILES_AHEAD = 64
_BYTES_AHEAD = 32 << 20
_FILES_OF_A_TASK = 8
_BYTES_OF_A_TASK = 1 << 20
_SLOW_SECONDS = 0.001
_DISK_BYTES_PER_SECOND = 500e6
_COLUMNS = ("root", "path", "uri", "size", "pin", "extra")

Row: TypeAlias = Mapping[str, Any]
"""A unit's `root`, `path`, `uri`, `size`, `pin` and `extra`."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class File:
    """A file as it was planned."""

    uri: str
    size: int
    pin: str


@dataclass(frozen=True, slots=True)
class _Wanted:
    """One sample to read."""

    sample: int
    row: Row
    files: Sequence[tuple[Store, File]]


@dataclass(slots=True)
class _Task:
    """Some samples of a batch, to read one after another."""

    samples: list[_Wanted] = field(default_factory=list)
    size: int = 0
    ends_batch: bool = False


@dataclass(frozen=True, slots=True)
class _Read(Generic[T]):
    """One sample read: either what it is or a reason why it is bad."""

    sample: int
    size: int
    seconds: float
    found: T | None
    reason: str = ""
    raw: Raw | None = None


class FilesReader(Generic[T]):
    """A reader of such samples. A subclass says which files a sample has, what they are, and what columns they make."""

    def __init__(self, access: Access) -> None:
        self._access = access
        self._is_slow = False
        """Whether what was read last took longer than a disk or the page cache does."""

    def schema(self) -> pa.Schema:
        """Columns of the batches, see `Reader`."""
        raise NotImplementedError

    def files(self, row: Row) -> Sequence[File]:
        """The files of a unit: its own, unless there are others."""
        return [File(row["uri"], row["size"], row["pin"])]

    def examine(self, row: Row, contents: Sequence[bytes]) -> T:
        """What the contents of the files are. Raises BadSample. Called in a thread."""
        raise NotImplementedError

    def columns(self, found: Sequence[T]) -> dict[str, Array]:
        """The columns of `schema()` and perhaps more."""
        raise NotImplementedError

    def read(self, units: Units, samples: Iterator[npt.NDArray[np.int64]]) -> Iterator[Batch]:
        """Any order costs the same: every sample is files of its own."""
        batch: list[_Read[T]] = []
        for task, read in self._in_order(self._tasks(units, samples)):
            batch += read
            if task.ends_batch:
                yield self._batch(batch)
                batch = []

    def _tasks(self, units: Units, samples: Iterator[npt.NDArray[np.int64]]) -> Iterator[_Task]:
        """The samples of each array, some at a time."""
        for wanted in samples:
            task = _Task()
            for each in self._wanted(units, wanted):
                if len(task.samples) == _FILES_OF_A_TASK or task.size >= _BYTES_OF_A_TASK:
                    yield task
                    task = _Task()
                task.samples.append(each)
                task.size += sum([file.size for _, file in each.files])
            task.ends_batch = True
            yield task

    def _wanted(self, units: Units, samples: npt.NDArray[np.int64]) -> Iterator[_Wanted]:
        index, _ = units.locate(samples)
        rows = units.rows(index, _COLUMNS)
        for sample, row in zip(samples.tolist(), rows, strict=True):
            # Here and not in the threads: the first look-up of a store makes its client.
            yield _Wanted(sample, row, [(self._access.store(file.uri), file) for file in self.files(row)])

    def _in_order(self, tasks: Iterator[_Task]) -> Iterator[tuple[_Task, list[_Read[T]]]]:
        """The tasks and what they read, in order. Several at once only when they take long, at most _FILES_AHEAD samples and about
        _BYTES_AHEAD bytes early: threads that need not wait for a disk or a server wait for each other, for most of the time.
        """
        waiting: deque[tuple[_Task, Future[list[_Read[T]]]]] = deque()
        ahead = 0
        with ThreadPoolExecutor(_THREADS, thread_name_prefix="files") as threads:
            try:
                for task in tasks:
                    if not waiting and not self._is_slow:
                        yield task, self._read_task(task)
                        continue
                    waiting.append((task, threads.submit(self._read_task, task)))
                    ahead += task.size
                    while waiting and (not self._is_slow or ahead > _BYTES_AHEAD or len(waiting) * _FILES_OF_A_TASK > _FILES_AHEAD):
                        done, reading = waiting.popleft()
                        ahead -= done.size
                        yield done, reading.result()
                while waiting:
                    done, reading = waiting.popleft()
                    yield done, reading.result()
            finally:
                for _, unread in waiting:
                    unread.cancel()

    def _read_task(self, task: _Task) -> list[_Read[T]]:
        read = [self._one(wanted) for wanted in task.samples]
        # The quickest tells: any other may only have waited for Python's lock.
        self._is_slow = min([each.seconds - each.size / _DISK_BYTES_PER_SECOND for each in read], default=0.0) > _SLOW_SECONDS
        return read

    def _one(self, wanted: _Wanted) -> _Read[T]:
        began = perf_counter()
        contents = [whole(store, file) for store, file in wanted.files]
        seconds = perf_counter() - began
        size = sum(map(len, contents))
        try:
            return _Read(wanted.sample, size, seconds, self.examine(wanted.row, contents))
        except BadSample as exc:
            return _Read(wanted.sample, size, seconds, None, str(exc), Raw.of(contents[0]) if contents else None)

    def _batch(self, read: Sequence[_Read[T]]) -> Batch:
        good = [(each.sample, each.found) for each in read if each.found is not None]
        columns = self.columns([found for _, found in good])
        columns[SAMPLE] = pa.array([sample for sample, _ in good], pa.int64())
        schema = self.schema().append(pa.field(SAMPLE, pa.int64()))
        return Batch(
            records=pa.RecordBatch.from_arrays([columns[name] for name in schema.names], schema=schema),
            bad=[Bad(each.sample, each.reason, each.raw) for each in read if each.found is None],
            bytes_in=sum(each.size for each in read),
        )


def whole(store: Store, file: File) -> bytes:
    """All bytes of a file. Raises InputChanged when it is not the one that was planned."""
    with open_pinned(store, file.uri, file.pin) as source:
        content = source.read_at(0, file.size)
    if len(content) != file.size:
        raise InputChanged(f"{file.uri} had {file.size:,} bytes when it was planned, and now {len(content):,}.", uri=file.uri)
    return content


def binaries(contents: Sequence[bytes]) -> Array:
    """A large_binary column: much faster than Arrow's own way from Python objects when they are large."""
    lengths = np.fromiter(map(len, contents), np.int64, len(contents))
    return binary(np.frombuffer(b"".join(contents), np.uint8), np.concatenate(([0], np.cumsum(lengths))))
