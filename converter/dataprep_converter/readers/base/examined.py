"""Examines the files of a source while planning. Files of a remote store are examined several at a time."""

from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import closing, suppress
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from typing import Final, Generic, TypeAlias, TypeVar, cast

from dataprep_converter.core.closeable import Closeable
from dataprep_converter.core.errors import BadData, BadSpec, ConvertError, InputChanged, NotFound
from dataprep_converter.inputs.access import Access
from dataprep_converter.inputs.archive_uris import split_archive_uri
from dataprep_converter.runtime.ahead import mapped_ahead
from dataprep_converter.runtime.scans import Document, Piece, Scan
from dataprep_converter.stores import Entry, Input, PinnedInput, ReadsFiles, Store

FILES_AT_ONCE: Final = 8
FILE_BYTES: Final = 100 << 10
"""In a scan, opening a file counts as this many bytes, so a part has at most about 10,000 files (`scans.PART_BYTES`).

If eight files are examined at a time, the two requests for a footer take about 5 ms for each file. Reading this number of bytes at 20 MB/s
takes as long. So a part with the maximum number of files takes 50 s. This is several times as long as starting its pod.
"""
_SMALL_BYTES: Final = 1 << 20

Item = TypeVar("Item")
Result = TypeVar("Result")

ListedFile: TypeAlias = tuple[int, str, Entry]
"""The number of the file's root, the path below the root, and the entry."""


@dataclass(frozen=True, slots=True)
class Examined(Generic[Result]):
    """A file, and the findings about it."""

    root: int
    path: str
    entry: Entry
    result: Result


@dataclass(frozen=True, slots=True)
class FilePart:
    """A file to be examined, or one cell of a file. A cell is a part of a large text file (`text_scan/cells.py`)."""

    root: int
    path: str
    entry: Entry
    cell: int | None = None
    """The number of the cell, or None for the complete file."""


@dataclass(frozen=True)
class Form(Generic[Result]):
    """Describes how the result for a file or a cell is stored, so that one process can examine the file or cell for another process
    (`runtime/scans.py`)."""

    bytes_of: Callable[[FilePart], int]
    """Returns the number of bytes to be read."""
    to_document: Callable[[Result], Document | None]
    """Returns the result as JSON, or None if it can't be stored."""
    from_document: Callable[[Document], Result]
    rule: str = ""
    """See `Piece.rule`."""


def examined(
    access: Access, files: Iterable[ListedFile], examine: Callable[[Store, Entry], Result], *, form: Form[Result] | None = None
) -> Iterator[Examined[Result]]:
    """Calls `examine` for each file and yields the results in order. Eight threads examine the files of a remote store.

    A file's error is raised only when the file's turn comes, so that the first error is the same as without threads. See `examined_parts`
    for `form`.
    """
    parts = (FilePart(root, path, entry) for root, path, entry in files)
    for part, result in examined_parts(access, parts, lambda store, part: examine(store, part.entry), form=form):
        yield Examined(part.root, part.path, part.entry, result)


def cost_of_start(part: FilePart) -> int:
    """A `Form.bytes_of` function for files of which only a header or a footer is read."""
    del part
    return FILE_BYTES


def cost_of_file(part: FilePart) -> int:
    """A `Form.bytes_of` function for files that may be read to the end."""
    return FILE_BYTES + part.entry.size


def examined_parts(
    access: Access,
    parts: Iterable[FilePart],
    examine: Callable[[Store, FilePart], Result],
    *,
    form: Form[Result] | None = None,
    most: int = FILES_AT_ONCE,
) -> Iterator[tuple[FilePart, Result]]:
    """Like `examined`, but for files and cells of files. Yields each `FilePart` with its result. `most` is the number of threads.

    With a `form`, uses the results of other processes if there are any. Yields nothing if this process only examines a part of the files
    for another process.
    """
    if form is not None:
        parts = _listed_before(access) or parts
    # Look up stores here rather than in the threads: the first look-up of a store creates its client.
    with_stores = ((access.store(part.entry.uri), part) for part in parts)
    if form is not None and access.scan is not None:
        yield from _scanned(access.scan, with_stores, examine, form, most=most)
        return

    def call(item: tuple[Store, FilePart]) -> tuple[FilePart, Result]:
        store, part = item
        return part, examine(store, part)

    yield from _in_turn(call, with_stores, most=most)


def first_file(access: Access, files: Iterable[ListedFile]) -> ListedFile | None:
    """Returns the first file, or None if there are no files.

    If this process reads the stored listing of a scan, returns the first file that it reads there, instead of listing the source.
    """
    first = next(_listed_before(access) or iter(()), None)
    return (first.root, first.path, first.entry) if first is not None else next(iter(files), None)


def _listed_before(access: Access) -> Iterator[FilePart] | None:
    """Yields files and cells from the stored listing of a scan. Returns None if this process has to list the source."""
    pieces = access.scan.listed() if access.scan is not None else None
    if pieces is None:
        return None
    return (FilePart(piece.root, piece.path, Entry(piece.uri, piece.size, piece.pin), piece.cell) for piece in pieces)


def _scanned(
    scan: Scan,
    with_stores: Iterator[tuple[Store, FilePart]],
    examine: Callable[[Store, FilePart], Result],
    form: Form[Result],
    *,
    most: int,
) -> Iterator[tuple[FilePart, Result]]:
    def taken() -> Iterator[tuple[Store, FilePart]]:
        for store, part in with_stores:
            if scan.takes(_piece(part, form)) if _is_divided(part.entry) else scan.lists_units:
                yield store, part

    def call(item: tuple[Store, FilePart]) -> tuple[FilePart, Result | Document | None]:
        store, part = item
        piece = _piece(part, form)
        document = scan.known(piece)
        if scan.lists_units:
            return part, examine(store, part) if document is None else form.from_document(document)
        if document is None:
            # Ignore errors here: the planner examines such a file itself, and raises any error when it reaches the file. If the file was
            # only removed or replaced after the listing, the planner might not find an error at all.
            with suppress(BadData, BadSpec, NotFound, InputChanged):
                document = form.to_document(examine(store, part))
        return part, document

    for part, result in _in_turn(call, taken(), most=most):
        if scan.lists_units:
            yield part, cast("Result", result)
        elif result is not None:
            scan.found(_piece(part, form), result)


def _is_divided(entry: Entry) -> bool:
    """Whether another process may examine the file for the planner.

    Members of compressed archives are excluded, because they can only be read in order. Files whose server reports no version are excluded
    too, because the planner couldn't tell whether such a file has changed since it was examined.
    """
    return split_archive_uri(entry.uri) is None and entry.has_version


def _piece(part: FilePart, form: Form[Result]) -> Piece:
    entry = part.entry
    return Piece(entry.uri, entry.pin, entry.size, part.cell, form.bytes_of(part), form.rule, part.root, part.path)


def _in_turn(call: Callable[[tuple[Store, FilePart]], Item], with_stores: Iterable[tuple[Store, FilePart]], *, most: int) -> Iterator[Item]:
    """Yields the results of `call`, in order. Calls for files of a remote store run in threads."""
    for in_order, group in groupby(with_stores, key=lambda item: _is_read_in_order(item[0], item[1].entry)):
        begin = _each if in_order else partial(mapped_ahead, most=most)
        with closing(begin(call, group)) as results:
            yield from results


def collect(
    pieces: Iterable[Item], sample: Callable[[Item], Result | ConvertError | None] = lambda _: None
) -> tuple[list[Item], Result | ConvertError | None, ConvertError | None]:
    """Collects the pieces of a file, and samples the first one.

    Returns the pieces, the sample, and the error that ended the iteration, if any. If `sample` returns an error, the iteration ends, and no
    pieces are returned.
    """
    collected: list[Item] = []
    first: Result | ConvertError | None = None
    try:
        for piece in pieces:
            if not collected:
                first = sample(piece)
                if isinstance(first, ConvertError):
                    break
            collected.append(piece)
    except ConvertError as exc:
        return collected, first, exc
    return collected, first, None


def _is_read_in_order(store: Store, entry: Entry) -> bool:
    """Whether the store's files are read one at a time.

    Several threads help only if the files are on a server; otherwise, the threads mostly wait for each other. The members of a compressed
    archive can only be read in order.
    """
    return isinstance(store, ReadsFiles) or split_archive_uri(entry.uri) is not None


def open_listed(access: Access, store: Store, entry: Entry) -> PinnedInput:
    """Opens a file to examine it.

    A scan stores the result for the version of the file that was listed. So a process that only scans raises InputChanged if the store
    reports another version when it opens the file.
    """
    source = store.open(entry.uri)
    if access.only_scans and source.pin and source.pin != entry.pin:
        source.close()
        raise InputChanged(f"{entry.uri} has changed since it was listed: {entry.pin} then, {source.pin} now.", uri=entry.uri)
    return source


def open_once(store: Store, entry: Entry, access: Access | None = None) -> Input:
    """Opens a file that is read once from its beginning. A small file of a remote store is read in a single request. If `access` is given,
    checks the file's version like `open_listed`."""
    source = open_listed(access, store, entry) if access is not None else store.open(entry.uri)
    # The file might have been replaced by a larger one since it was listed.
    if max(entry.size, source.size) > _SMALL_BYTES or _is_read_in_order(store, entry):
        return source
    with source:
        return _ContentInput(source.read_at(0, source.size))


def _each(call: Callable[[Item], Result], items: Iterable[Item]) -> Generator[Result, None, None]:
    for item in items:
        yield call(item)


@dataclass
class _ContentInput(Closeable):
    """An Input over bytes in memory."""

    content: bytes

    @property
    def size(self) -> int:
        return len(self.content)

    def read_at(self, offset: int, length: int) -> bytes:
        return self.content[offset : offset + length]

    def stream(self, offset: int = 0, length: int | None = None) -> Iterator[bytes]:
        end = self.size if length is None else offset + length
        if offset < min(end, self.size):
            yield self.content[offset:end]

    def close(self) -> None:
        """Does nothing."""
