"""`images`: image files in folders, their bytes kept as they are. Only the header is looked at, never a pixel.

One unit is one file. Files are read by a few threads ahead of the batch that is being made, in order, within a bound of bytes.
"""

from collections import deque
from collections.abc import Generator, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice
from typing import Any, ClassVar, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dataprep_api.spec import ImagesSource, Source
from dataprep_converter.access import Access, Entry, Store
from dataprep_converter.errors import BadSample, BadSpec, InputChanged, NotFound
from dataprep_converter.features import NOT_BY_DEFAULT
from dataprep_converter.readers import SAMPLE, Bad, Batch, Discovery, image_headers
from dataprep_converter.readers.image_headers import ImageHeader
from dataprep_converter.readers.inputs import is_hidden, open_pinned, relative_path
from dataprep_converter.tensors import binary
from dataprep_converter.units import Unit, Units

LABEL: Final = "image/class/label"
_THREADS = 8
_FILES_AHEAD = 64
_BYTES_AHEAD = 32 << 20
_FILES_OF_A_TASK = 8
_BYTES_OF_A_TASK = 1 << 20


@dataclass(frozen=True)
class _File:
    """One sample to read."""

    sample: int
    store: Store
    uri: str
    size: int
    pin: str
    text: str
    path: str


@dataclass(frozen=True)
class _Image:
    """One sample read: either a header or a reason why it is bad."""

    file: _File
    content: bytes
    header: ImageHeader | None
    reason: str = ""


class ImagesReader:
    """See the module. The columns are named like those of TensorFlow's own image data sets."""

    default_label: ClassVar[str] = LABEL

    @staticmethod
    def discover(source: Source, access: Access) -> Discovery:
        """Lists the folders. Raises NotFound for one without any file, BadSpec for an image without a class."""
        state: dict[str, Any] = {}
        return Discovery(units=_units(_images(source), access, state), state=state)

    def __init__(self, source: Source, state: Mapping[str, Any], access: Access) -> None:
        self._access = access
        self._classes: list[str] | None = state.get("classes")
        self._numbers = {name: number for number, name in enumerate(self._classes or [])}
        self._labelled = _images(source).label_from == "ParentFolder"

    def schema(self) -> pa.Schema:
        """`image/filename` is the path below the folder, and written only on request."""
        fields: list[pa.Field[Any]] = [
            pa.field("image/encoded", pa.large_binary()),
            pa.field("image/format", pa.string()),
            pa.field("image/height", pa.int64()),
            pa.field("image/width", pa.int64()),
        ]
        if self._labelled:
            fields += [pa.field(LABEL, pa.int64()), pa.field("image/class/text", pa.string())]
        return pa.schema([*fields, pa.field("image/filename", pa.string(), metadata=NOT_BY_DEFAULT)])

    def classes(self) -> dict[str, list[str]]:
        """The folders' names, or those given."""
        return {LABEL: self._classes} if self._labelled and self._classes is not None else {}

    def read(self, units: Units, samples: Iterator[npt.NDArray[np.int64]]) -> Iterator[Batch]:
        """Any order costs the same: every sample is a file."""
        lengths: deque[int] = deque()
        images = _read_ahead(self._tasks(units, samples, lengths))
        try:
            while True:
                # Asking for an image pulls its batch's sample numbers, so that the length is known afterwards.
                image = next(images, None)
                while lengths and lengths[0] == 0:
                    lengths.popleft()
                    yield self._batch([])
                if image is None:
                    return
                yield self._batch([image, *islice(images, lengths.popleft() - 1)])
        finally:
            images.close()

    def _tasks(self, units: Units, samples: Iterator[npt.NDArray[np.int64]], lengths: deque[int]) -> Iterator[list[_File]]:
        """Some files to read one after another. `lengths` gets the number of samples of each array."""
        for wanted in samples:
            lengths.append(len(wanted))
            task: list[_File] = []
            for file in self._files(units, wanted):
                task.append(file)
                if len(task) == _FILES_OF_A_TASK or sum(each.size for each in task) >= _BYTES_OF_A_TASK:
                    yield task
                    task = []
            if task:
                yield task

    def _files(self, units: Units, wanted: npt.NDArray[np.int64]) -> Iterator[_File]:
        index, _ = units.locate(wanted)
        rows = units.table.select(["uri", "size", "pin", "extra", "path"]).take(pa.array(index.tolist(), pa.int64())).to_pylist()
        for sample, row in zip(wanted.tolist(), rows, strict=True):
            yield _File(sample, self._access.store(row["uri"]), row["uri"], row["size"], row["pin"], row["extra"], row["path"])

    def _batch(self, images: Sequence[_Image]) -> Batch:
        good = [(image, image.header) for image in images if image.header is not None]
        lengths = np.fromiter((len(image.content) for image, _ in good), np.int64, len(good))
        joined = np.frombuffer(b"".join(image.content for image, _ in good), np.uint8)
        columns: dict[str, Any] = {
            "image/encoded": binary(joined, np.concatenate(([0], np.cumsum(lengths)))),
            "image/format": pa.array([header.format for _, header in good], pa.string()),
            "image/height": pa.array([header.height for _, header in good], pa.int64()),
            "image/width": pa.array([header.width for _, header in good], pa.int64()),
            LABEL: pa.array([self._numbers.get(image.file.text) for image, _ in good], pa.int64()),
            "image/class/text": pa.array([image.file.text for image, _ in good], pa.string()),
            "image/filename": pa.array([image.file.path for image, _ in good], pa.string()),
            SAMPLE: pa.array([image.file.sample for image, _ in good], pa.int64()),
        }
        schema = self.schema().append(pa.field(SAMPLE, pa.int64()))
        return Batch(
            records=pa.RecordBatch.from_arrays([columns[name] for name in schema.names], schema=schema),
            bad=[Bad(image.file.sample, image.reason) for image in images if image.header is None],
            bytes_in=sum(image.file.size for image in images),
        )


def _images(source: Source) -> ImagesSource:
    if source.images is None:
        raise BadSpec("The source has no images.")
    return source.images


# --- listing ------------------------------------------------------------------------------------------------------


def _units(images: ImagesSource, access: Access, state: dict[str, Any]) -> Iterator[Unit]:
    ignored = 0
    classes: set[str] = set()
    given = set(images.classes or [])
    for root, uri in enumerate(images.uris):
        store = access.store(uri)
        is_empty = True
        for entry in store.list(uri, recursive=images.recursive):
            is_empty = False
            path = relative_path(uri, entry.uri)
            if is_hidden(path):
                continue
            if path.rpartition("/")[2].rpartition(".")[2].lower() not in images.extensions:
                ignored += 1
                continue
            subset, name = _subset_and_class(images, path, entry)
            if given and images.label_from == "ParentFolder" and name not in given:
                raise BadSpec(
                    f"{entry.uri} is of the class {name!r}, which source.images.classes doesn't have: {_shown(images.classes or [])}."
                )
            classes.add(name)
            yield Unit(root=root, path=path, uri=entry.uri, records=1, size=entry.size, pin=entry.pin, subset=subset, extra=name)
        if is_empty:
            raise _nothing(store, uri)
    state["ignored"] = ignored
    if images.label_from == "ParentFolder":
        # Python compares strings by code points, which is the order of their UTF-8 bytes.
        state["classes"] = images.classes or sorted(classes)


def _subset_and_class(images: ImagesSource, path: str, entry: Entry) -> tuple[str, str]:
    folders = path.split("/")[:-1]
    subset = ""
    if images.subset_from == "FirstFolder":
        if not folders:
            raise BadSpec(f"{entry.uri} lies in no folder that could name its subset (subsetFrom: FirstFolder).")
        subset, *folders = folders
    if images.label_from == "None":
        return subset, ""
    if not folders:
        raise BadSpec(
            f"{entry.uri} lies in no folder that could name its class (labelFrom: ParentFolder); set labelFrom: None for images without one."
        )
    return subset, folders[-1]


def _nothing(store: Store, uri: str) -> BadSpec | NotFound:
    if store.stat(uri) is not None:
        return BadSpec(f"{uri} is a file; source.images.uris are folders.")
    return NotFound(f"{uri} holds no files, or is no folder.", uri=uri)


def _shown(classes: Sequence[str]) -> str:
    return ", ".join(classes[:20]) + (f" … and {len(classes) - 20} more" if len(classes) > 20 else "")


# --- reading ------------------------------------------------------------------------------------------------------


def _read_ahead(tasks: Iterator[list[_File]]) -> Generator[_Image, None, None]:
    """The images of the tasks in order, read by a few threads; at most _FILES_AHEAD files and about _BYTES_AHEAD bytes early."""
    waiting: deque[tuple[Future[list[_Image]], int]] = deque()
    ahead = 0
    with ThreadPoolExecutor(_THREADS, thread_name_prefix="images") as threads:
        try:
            for task in tasks:
                size = sum(file.size for file in task)
                waiting.append((threads.submit(_read, task), size))
                ahead += size
                while waiting and (ahead > _BYTES_AHEAD or len(waiting) * _FILES_OF_A_TASK > _FILES_AHEAD):
                    done, size = waiting.popleft()
                    ahead -= size
                    yield from done.result()
            while waiting:
                yield from waiting.popleft()[0].result()
        finally:
            for unread, _ in waiting:
                unread.cancel()


def _read(files: Sequence[_File]) -> list[_Image]:
    return [_one(file) for file in files]


def _one(file: _File) -> _Image:
    with open_pinned(file.store, file.uri, file.pin) as source:
        content = source.read_at(0, file.size)
    if len(content) != file.size:
        raise InputChanged(f"{file.uri} had {file.size:,} bytes when it was planned, and now {len(content):,}.", uri=file.uri)
    try:
        return _Image(file, content, image_headers.parse(content))
    except BadSample as exc:
        return _Image(file, b"", None, str(exc))
