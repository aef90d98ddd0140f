"""Samples that are whole files, one unit each, read in order; where a file takes long to come, by a few threads ahead of the batch that is
being made, within a bound of bytes. What the bytes mean is the readers' own business.

Files of this machine go to one room for the whole batch, many in one call, and the room is the column.
"""

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import accumulate, pairwise
from time import perf_counter
from typing import Any, ClassVar, Final, Generic, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dataprep_converter.core.closeable import Closeable
from dataprep_converter.core.errors import BadSample, InputChanged
from dataprep_converter.core.tensors import Array, binary
from dataprep_converter.inputs.access import Access
from dataprep_converter.inputs.pinned import open_pinned
from dataprep_converter.records.batch import SAMPLE, Batch, Raw, RejectedSample
from dataprep_converter.sampling.units import UnitTable
from dataprep_converter.stores import ReadsFiles, Store

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

Room: TypeAlias = npt.NDArray[np.uint8]
"""For the files of a batch, one after another."""
_NO_ROOM: Final = np.empty(0, np.uint8)

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class File:
    """A file as it was planned."""

    uri: str
    size: int
    pin: str


@dataclass(frozen=True, slots=True)
class _SampleRequest:
    """One sample to read."""

    sample: int
    row: Row
    files: Sequence[tuple[Store, File]]


@dataclass(slots=True)
class _Task:
    """Some samples of a batch, to read one after another."""

    room: Room
    """Of the whole batch; empty where its files don't go there."""
    first: int
    """Where the first of these files goes."""
    samples: list[_SampleRequest] = field(default_factory=list)
    size: int = 0
    ends_batch: bool = False

    def files(self) -> list[tuple[Store, File]]:
        """Of all samples."""
        return [each for wanted in self.samples for each in wanted.files]


_Content: TypeAlias = bytes | memoryview
"""All bytes of a file: its own, or its part of the room."""


class FilesReader(Closeable, Generic[T]):
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
        """What the contents of a sample's files are. Raises BadSample."""
        raise NotImplementedError

    lays_out: ClassVar[bool] = False
    """Whether samples are a file each and `laid_out` makes something of them."""

    def laid_out(self, rows: Sequence[Row], room: Room, offsets: npt.NDArray[np.int64]) -> dict[str, Array] | None:  # noqa: ARG002 - see above
        """The columns of such samples, whose files are `room[offsets[n]:offsets[n + 1]]`; None where each has to be examined."""
        return None

    def columns(self, found: Sequence[T]) -> dict[str, Array]:
        """The columns of `schema()` and perhaps more."""
        raise NotImplementedError

    def read(self, units: UnitTable, samples: Iterator[npt.NDArray[np.int64]]) -> Iterator[Batch]:
        """Any order costs the same: every sample is files of its own."""
        batch: list[_SampleRequest] = []
        contents: list[_Content] = []
        for task, read in self._in_order(self._tasks(units, samples)):
            batch += task.samples
            contents += read
            if task.ends_batch:
                yield self._batch(batch, contents, task.room)
                batch, contents = [], []

    def close(self) -> None:
        """No file stays open."""

    def _tasks(self, units: UnitTable, samples: Iterator[npt.NDArray[np.int64]]) -> Iterator[_Task]:
        """The samples of each array, some at a time."""
        for numbers in samples:
            wanted = self._wanted(units, numbers)
            task = _Task(_room_for(wanted) if self.lays_out else _NO_ROOM, 0)
            for each in wanted:
                if len(task.samples) == _FILES_OF_A_TASK or task.size >= _BYTES_OF_A_TASK:
                    yield task
                    task = _Task(task.room, task.first + task.size)
                task.samples.append(each)
                task.size += sum([file.size for _, file in each.files])
            task.ends_batch = True
            yield task

    def _wanted(self, units: UnitTable, samples: npt.NDArray[np.int64]) -> list[_SampleRequest]:
        index, _ = units.locate(samples)
        rows = units.rows(index, _COLUMNS)
        # Stores are looked up here and not in the threads: the first look-up of a store makes its client.
        return [
            _SampleRequest(sample, row, [(self._access.store(file.uri), file) for file in self.files(row)])
            for sample, row in zip(samples.tolist(), rows, strict=True)
        ]

    def _in_order(self, tasks: Iterator[_Task]) -> Iterator[tuple[_Task, list[_Content]]]:
        """The tasks and what they read, in order. Several at once only when they take long, at most _FILES_AHEAD samples and about
        _BYTES_AHEAD bytes early: threads that need not wait for a disk or a server wait for each other, for most of the time.
        """
        waiting: deque[tuple[_Task, Future[list[_Content]]]] = deque()
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

    def _read_task(self, task: _Task) -> list[_Content]:
        read = _contents(task)
        # The quickest tells: any other may only have waited for Python's lock.
        self._is_slow = min([spent - len(content) / _DISK_BYTES_PER_SECOND for content, spent in read], default=0.0) > _SLOW_SECONDS
        return [content for content, _ in read]

    def _batch(self, batch: Sequence[_SampleRequest], contents: Sequence[_Content], room: Room) -> Batch:
        bad: list[RejectedSample] = []
        columns = None
        if len(room) and all(isinstance(content, memoryview) for content in contents):
            columns = self.laid_out([wanted.row for wanted in batch], room, np.cumsum([0, *map(len, contents)]))
        samples = [wanted.sample for wanted in batch]
        if columns is None:
            examined = self._examined(batch, iter(contents), bad)
            columns = self.columns(list(examined.values()))
            samples = list(examined)
        columns[SAMPLE] = pa.array(samples, pa.int64())
        schema = self.schema().append(pa.field(SAMPLE, pa.int64()))
        return Batch(
            records=pa.RecordBatch.from_arrays([columns[name] for name in schema.names], schema=schema),
            bad=bad,
            bytes_in=sum(map(len, contents)),
        )

    def _examined(self, batch: Sequence[_SampleRequest], contents: Iterator[_Content], bad: list[RejectedSample]) -> dict[int, T]:
        """What each good sample is."""
        found: dict[int, T] = {}
        for wanted in batch:
            own = [bytes(next(contents)) for _ in wanted.files]
            try:
                found[wanted.sample] = self.examine(wanted.row, own)
            except BadSample as exc:
                bad.append(RejectedSample(wanted.sample, str(exc), Raw.of(own[0]) if own else None))
        return found


def _room_for(batch: Sequence[_SampleRequest]) -> Room:
    """For all files, where their store reads many in one call."""
    files = [each for wanted in batch for each in wanted.files]
    stores = {id(store): store for store, _ in files}
    if len(stores) != 1 or not all(isinstance(store, ReadsFiles) for store in stores.values()):
        return _NO_ROOM
    return np.empty(sum([file.size for _, file in files]), np.uint8)


def _contents(task: _Task) -> list[tuple[_Content, float]]:
    """The contents of the files, and how many seconds each took. Raises InputChanged for one that is not the one that was planned."""
    files = task.files()
    store = files[0][0] if len(task.room) and files else None
    if not isinstance(store, ReadsFiles):
        return [_one(*each) for each in files]
    sizes = [file.size for _, file in files]
    seconds = store.read_files([file.uri for _, file in files], sizes, [file.pin for _, file in files], task.room[task.first :])
    view = memoryview(task.room)
    return [
        (view[start:end], spent) if spent is not None else _one(*each)
        for each, spent, (start, end) in zip(files, seconds, pairwise(accumulate(sizes, initial=task.first)), strict=True)
    ]


def _one(store: Store, file: File) -> tuple[_Content, float]:
    began = perf_counter()
    return whole(store, file), perf_counter() - began


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
