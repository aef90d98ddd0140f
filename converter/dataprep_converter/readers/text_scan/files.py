"""Examines the text files of a source while planning, each file on its own."""

from collections.abc import Iterable, Iterator
from functools import partial
from threading import BoundedSemaphore
from typing import Final, Protocol

from dataprep_converter.inputs.access import Access
from dataprep_converter.inputs.encodings import Encoding
from dataprep_converter.readers.base.examined import Examined, ListedFile, examined, open_once
from dataprep_converter.readers.text import stretches
from dataprep_converter.readers.text.stretches import BOM, Scan, open_forward
from dataprep_converter.readers.text_scan.found import TextFile, examine_rest
from dataprep_converter.stores import Entry, Input, Store

_AHEAD_AT_ONCE: Final = 2
"""The number of files that are read ahead at the same time. A file that is read ahead takes about 24 MiB of memory and four connections;
every other file takes about 8 MiB and one connection."""


class ExamineText(Protocol):
    """Finds the records of one file. Several threads may call it."""

    def __call__(self, source: Input, entry: Entry, *, ahead: bool) -> TextFile:
        """Reads the file. Raises the errors that come before the first record. `ahead` says whether to read the file ahead."""
        ...


def examined_texts(access: Access, files: Iterable[ListedFile], examine: ExamineText) -> Iterator[Examined[TextFile]]:
    """Calls `examine` for each file and yields the results in the order of the files. See `examined`."""
    yield from examined(access, files, partial(_open_and_examine, examine, BoundedSemaphore(_AHEAD_AT_ONCE)))


def _open_and_examine(examine: ExamineText, ahead: BoundedSemaphore, store: Store, entry: Entry) -> TextFile:
    is_ahead = entry.size > stretches.UNIT_BYTES and ahead.acquire(blocking=False)
    try:
        with open_once(store, entry) as source:
            return examine(source, entry, ahead=is_ahead)
    finally:
        if is_ahead:
            ahead.release()


def examine_lines(source: Input, entry: Entry, *, ahead: bool, scan: Scan, encoding: Encoding | None, limit: str) -> TextFile:
    """Finds the records of a file whose records are lines. Raises BadData for a file that can't be read as text.

    A byte order mark takes precedence over `encoding`, and is left out. If `encoding` is None, the bytes have no encoding. A line that is
    too long becomes the file's fault, with the message `limit`.
    """
    with open_forward(source, entry, encoding, ahead=ahead) as forward:
        first_bytes = forward.read(len(BOM))
        first_bytes = b"" if encoding is not None and first_bytes == BOM else first_bytes
        return examine_rest(forward, first_bytes, line=1, scan=scan, uri=entry.uri, limit=limit)
