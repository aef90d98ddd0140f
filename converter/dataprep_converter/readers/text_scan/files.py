"""Examines the text files of a source while planning. Each file or cell is examined separately.

A plain text file of more than CELL_BYTES is examined in cells of CELL_BYTES, which don't depend on each other. Any other file is examined as
a whole.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from threading import BoundedSemaphore
from typing import Final, Protocol

from dataprep_converter.core.errors import InputChanged
from dataprep_converter.inputs.access import Access
from dataprep_converter.inputs.archive_uris import split_archive_uri
from dataprep_converter.inputs.compressions import MAGIC_BYTES, compression_of
from dataprep_converter.inputs.encodings import MARK_BYTES, UTF16, BrokenText, Encoding, marked_encoding
from dataprep_converter.inputs.pinned import open_pinned
from dataprep_converter.readers.base.examined import FILES_AT_ONCE, Examined, FilePart, Form, ListedFile, examined_parts, open_once
from dataprep_converter.readers.text import stretches
from dataprep_converter.readers.text_scan.cell_merge import CellMerge, TextCell
from dataprep_converter.readers.text_scan.cells import ScansCells, ScanT, scan_cell
from dataprep_converter.readers.text_scan.stored import FoundText, from_document, to_document
from dataprep_converter.readers.text_scan.text_file import TextFile
from dataprep_converter.runtime import limits
from dataprep_converter.stores import Entry, Input, Store

TEXT_UNITS: Final = "textUnits"
"""The part (see `run_id.PARTS`) that says how text files are divided into units. Since version 2, large files have cells."""
CELL_BYTES: Final = 256 << 20
_AHEAD_AT_ONCE: Final = 2
"""The number of files that are read ahead at the same time, over four connections each.

Any other file or cell is read over a single connection.
"""
_FILE_MEMORY: Final = 128 << 20
"""The memory divided by this number of bytes is the number of files that may be examined at the same time.

All processes on the machine share the memory. A file takes about 30 MiB, and 25 MiB more if it is read ahead.
"""


@dataclass(frozen=True)
class TextStart:
    """Where the first record of a file begins."""

    offset: int
    line: int
    names: list[str] | None = None
    """The names in the file's header."""


class TextRule(ScansCells[ScanT], Protocol[ScanT]):
    """Finds the records in a source's files. Several threads may call the methods."""

    @property
    def limit(self) -> str:
        """The message for a record that is too long; see `cut`."""
        ...

    def examine(self, source: Input, entry: Entry, *, ahead: bool) -> TextFile:
        """Reads a complete file.

        Raises errors that occur before the first record. A later error is stored as the file's `fault`. `ahead` says whether to read ahead.
        """
        ...

    def encoding_of_cells(self, source: Input) -> Encoding | None:
        """The encoding of a file that can be examined in cells, or None for any other file. Reads only the start of the file."""
        ...

    def start_of_cells(self, source: Input, entry: Entry) -> TextStart:
        """Reads the start of a file that can be examined in cells. Raises the same errors as `examine`."""
        ...


def examined_texts(access: Access, files: Iterable[ListedFile], rule: TextRule[ScanT]) -> Iterator[Examined[TextFile]]:
    """Examines the files and yields the findings, in order. A file that has cells is yielded once for each cell."""
    cuts = access.version_of(TEXT_UNITS) > 1
    parts = (part for file in files for part in _parts_of(file, cuts=cuts))
    merge: CellMerge | None = None
    examine = partial(_open_and_examine, access, rule, BoundedSemaphore(_AHEAD_AT_ONCE))
    form = Form(_bytes_of, to_document, from_document)
    for part, found in examined_parts(access, parts, examine, form=form, most=_files_at_once(access)):
        if part.cell in (None, 0):
            merge = CellMerge(part.entry.uri, found, limit=rule.limit) if isinstance(found, TextCell) else None
        if isinstance(found, TextFile):
            yield Examined(part.root, part.path, part.entry, found)
        elif merge is not None:
            if found is None:
                raise InputChanged(f"{part.entry.uri} changed while it was being read. Plan again.", uri=part.entry.uri)
            access.has_text_cells = True
            yield Examined(part.root, part.path, part.entry, merge.take(found))


def plain_encoding(source: Input, encoding: Encoding | None) -> Encoding | None:
    """The encoding of a file whose bytes can be scanned in any order, or None for a compressed or UTF-16 file.

    A byte order mark takes precedence over `encoding`. If `encoding` is None, byte order marks are ignored, and the result is Utf8.
    """
    start = source.read_at(0, max(MAGIC_BYTES, MARK_BYTES))
    if compression_of(start) is not None:
        return None
    try:
        found = "Utf8" if encoding is None else marked_encoding(start) or encoding
    except BrokenText:
        return None
    return None if found in UTF16 else found


def _files_at_once(access: Access) -> int:
    return max(1, min(FILES_AT_ONCE, limits.memory_bytes() // access.processes_here // _FILE_MEMORY))


def _parts_of(file: ListedFile, *, cuts: bool) -> Iterator[FilePart]:
    root, path, entry = file
    # The members of a compressed archive can only be read in order.
    if not cuts or entry.size <= CELL_BYTES or split_archive_uri(entry.uri) is not None:
        yield FilePart(root, path, entry)
        return
    for cell in range(-(-entry.size // CELL_BYTES)):
        yield FilePart(root, path, entry, cell)


def _bytes_of(part: FilePart) -> int:
    return part.entry.size if part.cell is None else min(CELL_BYTES, part.entry.size - part.cell * CELL_BYTES)


def _open_and_examine(access: Access, rule: TextRule[ScanT], ahead: BoundedSemaphore, store: Store, part: FilePart) -> FoundText:
    is_ahead = part.entry.size > stretches.UNIT_BYTES and ahead.acquire(blocking=False)
    try:
        if part.cell is None:
            with open_once(store, part.entry, access) as source:
                return rule.examine(source, part.entry, ahead=is_ahead)
        with open_pinned(store, part.entry.uri, part.entry.pin) as source:
            return _examine_cell(rule, source, part.entry, part.cell, ahead=is_ahead)
    finally:
        if is_ahead:
            ahead.release()


def _examine_cell(rule: TextRule[ScanT], source: Input, entry: Entry, cell: int, *, ahead: bool) -> FoundText:
    encoding = rule.encoding_of_cells(source)
    begin, end = cell * CELL_BYTES, min((cell + 1) * CELL_BYTES, entry.size)
    if cell > 0:
        if encoding is None:
            return None
        return TextCell(encoding, scan_cell(source, entry, rule, begin=begin, end=end, is_start=False, ahead=ahead))
    start = rule.start_of_cells(source, entry) if encoding is not None else None
    if encoding is None or start is None or start.offset >= end:
        # The file isn't scanned in cells, so the first cell represents the complete file.
        return rule.examine(source, entry, ahead=ahead)
    units = scan_cell(source, entry, rule, begin=start.offset, end=end, is_start=True, ahead=ahead)
    return TextCell(encoding, units, start.line, start.names)
