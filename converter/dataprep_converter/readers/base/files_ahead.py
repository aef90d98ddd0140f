"""The base of readers whose samples are complete files, each of which is a unit. Subclasses interpret the bytes.

Samples are returned in the requested order. If files are slow to read, a few threads read ahead of the current batch, up to a limit in
bytes. Many local files are read in one call, into a buffer for the complete batch. That buffer becomes the column.
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
from dataprep_converter.sampling.units import Units
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
"""A unit's values of `root`, `path`, `uri`, `size`, `pin` and `extra`."""

Room: TypeAlias = npt.NDArray[np.uint8]
"""A buffer that holds the files in a batch, one after another."""
_NO_ROOM: Final = np.empty(0, np.uint8)

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class File:
    """A file with its planned size and pin."""

    uri: str
    size: int
    pin: str


@dataclass(frozen=True, slots=True)
class _SampleRequest:
    """A sample to be read, and its files."""

    sample: int
    row: Row
    files: Sequence[tuple[Store, File]]


@dataclass(slots=True)
class _Task:
    """Some samples of a batch, which are read one after another."""

    room: Room
    """The buffer for all files of the batch. The buffer is empty if the files are read into separate buffers."""
    first: int
    """The offset of the task's first file in the buffer."""
    samples: list[_SampleRequest] = field(default_factory=list)
    size: int = 0
    ends_batch: bool = False

    def files(self) -> list[tuple[Store, File]]:
        """The files of all samples."""
        return [each for request in self.samples for each in request.files]


_Content: TypeAlias = bytes | memoryview
"""All bytes of a file, which are in a separate buffer or are a part of the batch's buffer."""


class FilesReader(Closeable, Generic[T]):
    """A reader of samples that are complete files. A subclass defines a sample's files, how to interpret them, and the columns."""

    def __init__(self, access: Access) -> None:
        self._access = access
        self._is_slow = False
        """Whether the last read took longer than a read from a disk or the page cache usually takes."""

    def schema(self) -> pa.Schema:
        """The columns of the batches; see `Reader`."""
        raise NotImplementedError

    def files(self, row: Row) -> Sequence[File]:
        """The files to read for a unit. By default, this method returns only the unit's own file."""
        return [File(row["uri"], row["size"], row["pin"])]

    def examine(self, row: Row, contents: Sequence[bytes]) -> T:
        """Interprets the contents of a sample's files. Raises BadSample."""
        raise NotImplementedError

    uses_room: ClassVar[bool] = False
    """Whether each sample is a single file and the subclass implements `columns_of_room`."""

    def columns_of_room(self, rows: Sequence[Row], room: Room, offsets: npt.NDArray[np.int64]) -> dict[str, Array] | None:  # noqa: ARG002 - see above
        """The columns of samples whose files are all in the buffer `room`: file `n` is `room[offsets[n]:offsets[n + 1]]`.

        Returns None if each sample must be interpreted separately.
        """
        return None

    def columns(self, samples: Sequence[T]) -> dict[str, Array]:
        """The columns of `schema()`. The result can contain additional columns."""
        raise NotImplementedError

    def read(self, units: Units, samples: Iterator[npt.NDArray[np.int64]]) -> Iterator[Batch]:
        """Yields a batch for each array of sample numbers. Reading costs the same in any order, because each sample has its own files."""
        batch: list[_SampleRequest] = []
        contents: list[_Content] = []
        for task, task_contents in self._run_tasks(self._tasks(units, samples)):
            batch += task.samples
            contents += task_contents
            if task.ends_batch:
                yield self._batch(batch, contents, task.room)
                batch, contents = [], []

    def close(self) -> None:
        """Does nothing, because no file stays open."""

    def _tasks(self, units: Units, samples: Iterator[npt.NDArray[np.int64]]) -> Iterator[_Task]:
        """Divides the samples of each array into tasks."""
        for numbers in samples:
            requests = self._requests(units, numbers)
            task = _Task(_room_for(requests) if self.uses_room else _NO_ROOM, 0)
            for request in requests:
                if len(task.samples) == _FILES_OF_A_TASK or task.size >= _BYTES_OF_A_TASK:
                    yield task
                    task = _Task(task.room, task.first + task.size)
                task.samples.append(request)
                task.size += sum([file.size for _, file in request.files])
            task.ends_batch = True
            yield task

    def _requests(self, units: Units, samples: npt.NDArray[np.int64]) -> list[_SampleRequest]:
        index, _ = units.locate(samples)
        rows = units.rows(index, _COLUMNS)
        # Look up stores here rather than in the threads: the first look-up of a store creates its client.
        return [
            _SampleRequest(sample, row, [(self._access.store(file.uri), file) for file in self.files(row)])
            for sample, row in zip(samples.tolist(), rows, strict=True)
        ]

    def _run_tasks(self, tasks: Iterator[_Task]) -> Iterator[tuple[_Task, list[_Content]]]:
        """Yields the tasks and their results, in order.

        Slow tasks run in parallel. At most _FILES_AHEAD samples and about _BYTES_AHEAD bytes are read ahead. Fast tasks run one at a time,
        because their threads would mostly wait for each other.
        """
        queue: deque[tuple[_Task, Future[list[_Content]]]] = deque()
        ahead = 0
        with ThreadPoolExecutor(_THREADS, thread_name_prefix="files") as threads:
            try:
                for task in tasks:
                    if not queue and not self._is_slow:
                        yield task, self._read_task(task)
                        continue
                    queue.append((task, threads.submit(self._read_task, task)))
                    ahead += task.size
                    while queue and (not self._is_slow or ahead > _BYTES_AHEAD or len(queue) * _FILES_OF_A_TASK > _FILES_AHEAD):
                        first, reading = queue.popleft()
                        ahead -= first.size
                        yield first, reading.result()
                while queue:
                    first, reading = queue.popleft()
                    yield first, reading.result()
            finally:
                for _, unread in queue:
                    unread.cancel()

    def _read_task(self, task: _Task) -> list[_Content]:
        timed_contents = _contents(task)
        # Judge by the fastest read only, because slower reads might have waited for the GIL.
        self._is_slow = (
            min([spent - len(content) / _DISK_BYTES_PER_SECOND for content, spent in timed_contents], default=0.0) > _SLOW_SECONDS
        )
        return [content for content, _ in timed_contents]

    def _batch(self, batch: Sequence[_SampleRequest], contents: Sequence[_Content], room: Room) -> Batch:
        bad: list[RejectedSample] = []
        columns = None
        if len(room) and all(isinstance(content, memoryview) for content in contents):
            columns = self.columns_of_room([request.row for request in batch], room, np.cumsum([0, *map(len, contents)]))
        samples = [request.sample for request in batch]
        if columns is None:
            examined = self._examine_samples(batch, iter(contents), bad)
            columns = self.columns(list(examined.values()))
            samples = list(examined)
        columns[SAMPLE] = pa.array(samples, pa.int64())
        schema = self.schema().append(pa.field(SAMPLE, pa.int64()))
        return Batch(
            records=pa.RecordBatch.from_arrays([columns[name] for name in schema.names], schema=schema),
            bad=bad,
            bytes_in=sum(map(len, contents)),
        )

    def _examine_samples(self, batch: Sequence[_SampleRequest], contents: Iterator[_Content], bad: list[RejectedSample]) -> dict[int, T]:
        """Returns a dict that maps the number of each good sample to the interpreted sample. Bad samples are appended to `bad`."""
        samples: dict[int, T] = {}
        for request in batch:
            own = [bytes(next(contents)) for _ in request.files]
            try:
                samples[request.sample] = self.examine(request.row, own)
            except BadSample as exc:
                bad.append(RejectedSample(request.sample, str(exc), Raw.of(own[0]) if own else None))
        return samples


def _room_for(batch: Sequence[_SampleRequest]) -> Room:
    """A buffer for all files if their store can read many files in one call; otherwise an empty buffer."""
    files = [each for request in batch for each in request.files]
    stores = {id(store): store for store, _ in files}
    if len(stores) != 1 or not all(isinstance(store, ReadsFiles) for store in stores.values()):
        return _NO_ROOM
    return np.empty(sum([file.size for _, file in files]), np.uint8)


def _contents(task: _Task) -> list[tuple[_Content, float]]:
    """The content of each file, and the number of seconds that reading the file took. Raises InputChanged for a file that has changed since
    planning."""
    files = task.files()
    store = files[0][0] if len(task.room) and files else None
    if not isinstance(store, ReadsFiles):
        return [_read_timed(*each) for each in files]
    sizes = [file.size for _, file in files]
    seconds = store.read_files([file.uri for _, file in files], sizes, [file.pin for _, file in files], task.room[task.first :])
    view = memoryview(task.room)
    return [
        (view[start:end], spent) if spent is not None else _read_timed(*each)
        for each, spent, (start, end) in zip(files, seconds, pairwise(accumulate(sizes, initial=task.first)), strict=True)
    ]


def _read_timed(store: Store, file: File) -> tuple[_Content, float]:
    began = perf_counter()
    return read_whole_file(store, file), perf_counter() - began


def read_whole_file(store: Store, file: File) -> bytes:
    """All bytes of a file. Raises InputChanged if the file has changed since planning."""
    with open_pinned(store, file.uri, file.pin) as source:
        content = source.read_at(0, file.size)
    if len(content) != file.size:
        raise InputChanged(f"{file.uri} had {file.size:,} bytes when it was planned, but now has {len(content):,}.", uri=file.uri)
    return content


def binaries(contents: Sequence[bytes]) -> Array:
    """A large_binary column of the contents. For large values, this function is much faster than Arrow's conversion from Python objects."""
    lengths = np.fromiter(map(len, contents), np.int64, len(contents))
    return binary(np.frombuffer(b"".join(contents), np.uint8), np.concatenate(([0], np.cumsum(lengths))))
