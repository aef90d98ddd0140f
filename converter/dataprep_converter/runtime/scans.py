"""A scan: several processes examine the files of a source before it is planned. Each process examines one part.

A *piece* is a file, or a cell of a large file. The first process lists the source to decide whether a scan is needed. If so, it stores the
pieces in the order of the listing (`planning/scan_listing.py`). Each other process reads only the pieces of its part from this stored
listing. If no listing is stored, the process lists the source itself. In both cases, the process computes which piece belongs to which
part, so the processes needn't communicate. Each process stores what it found in the pieces of its part as JSON. The planner lists the
source once more, uses the stored results, and examines only pieces without a result. So the plan depends neither on how the pieces were
divided nor on the stored listing.
"""

import hashlib
import json
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, fields
from typing import Any, Final, Protocol, TypeAlias

PART_BYTES: Final = 1 << 30
"""A source is scanned if more than this many bytes have to be read. In a scan by several pods, a part has at most about this many bytes.
Parts are larger only if there would otherwise be more than MOST_TASKS parts."""
LEAST_PART_BYTES: Final = 64 << 20
"""A part has at least about this many bytes, because reading fewer bytes takes less time than starting a process."""

RESULTS_BYTES: Final = 2 << 20
"""The results of a part are stored in files of about this many bytes. A file with a single result can be larger. In memory, the results of
a file take several times this many bytes."""

_WATCH_BYTES: Final = 32 << 20
"""Progress is reported each time this many bytes have been examined."""

Document: TypeAlias = Any
"""The result of a piece, which says what was found in it: a JSON value or a `WithCommon`."""


@dataclass(frozen=True, slots=True)
class WithCommon:
    """A JSON value, and a string that many pieces have in common, such as a schema. Equal strings are stored only once."""

    value: Any
    common: str


@dataclass(frozen=True, slots=True)
class Piece:
    """One version of a file, or of a cell of a large file."""

    uri: str
    pin: str
    size: int
    """The size of the complete file in bytes."""
    cell: int | None
    """The number of the cell, or None for the complete file."""
    bytes: int
    """The number of bytes to be read."""
    rule: str = ""
    """The rule by which the piece is examined. Empty if the source and the release determine the rule."""
    root: int = field(default=0, compare=False)
    """The number of the source's URI below which the file was listed. `root` and `path` don't affect what is found in the piece."""
    path: str = field(default="", compare=False)
    """The path of the file below that URI."""

    def values(self) -> list[Any]:
        """Returns the values of the fields that identify the piece (those with `compare`), as JSON values."""
        return [getattr(self, name) for name in _COMPARED]


_COMPARED: Final = tuple(each.name for each in fields(Piece) if each.compare)


class Scan(Protocol):
    """Decides what happens to each piece when a source is examined."""

    lists_units: bool
    """Whether the source's units, which follow from the results, are needed. If not, only the results are needed."""

    def listed(self) -> Iterator[Piece] | None:
        """Yields pieces in the order of the listing, including all pieces that this process examines. Each call begins at the first piece.

        Returns None if the source has to be listed.
        """
        ...

    def takes(self, piece: Piece) -> bool:
        """Returns whether this process needs the result of the piece. Called once for each piece, in order."""
        ...

    def known(self, piece: Piece) -> Document | None:
        """Returns the result that another process has found for the piece, or None. Several threads may call this method."""
        ...

    def found(self, piece: Piece, document: Document) -> None:
        """Called when this process has examined a piece, with the result. The calls are in the order of the pieces."""
        ...


@dataclass
class Division(Scan):
    """Computes the part to which each piece belongs. When a `Division` is used as a `Scan`, it only counts the pieces.

    In a concatenation of all pieces, each part is a range of `part_bytes` bytes. A piece belongs to the part that contains the piece's
    middle. So the division depends only on `part_bytes` and on the listing.
    """

    part_bytes: int = sys.maxsize
    """The length of a part. Until `divide_into` chooses the length, there is a single part."""
    lists_units: bool = False
    pieces: int = 0
    """The number of pieces so far."""
    bytes: int = 0
    """The number of bytes in these pieces."""
    length: int = 0
    """Like `bytes`, but with at most PART_BYTES for each piece, so that a single large file doesn't make all parts large.

    If only pieces from the middle of the listing are counted, the length includes all earlier pieces of the listing.
    """
    keep: Callable[[Piece, int], None] | None = None
    """Called with each piece that `takes` counts, and with the length of the pieces before it."""
    _longest: int = 0
    _last_middle: int = 0
    _digest: Any = field(default_factory=hashlib.sha256)  # the type of hashlib's objects isn't public

    @property
    def parts(self) -> int:
        """The number of parts. No part is empty, because no piece is longer than `part_bytes`."""
        return self._last_middle // self.part_bytes + 1 if self.pieces else 0

    def divide_into(self, most: int) -> None:
        """Chooses `part_bytes` so that there are at most `most` parts of about the same size. Call this method after counting all pieces.

        Each part, except perhaps the last, has at least LEAST_PART_BYTES and is at least as long as the longest piece.
        """
        self.part_bytes = max(-(-self.length // most), LEAST_PART_BYTES, self._longest)

    def part_of(self, piece: Piece) -> int:
        """Returns the number of the part to which the piece belongs. Must be called for each piece, in order."""
        length = max(1, min(piece.bytes, PART_BYTES))
        self._last_middle = self.length + length // 2
        self.length += length
        self._longest = max(self._longest, length)
        self.pieces += 1
        self.bytes += piece.bytes
        self._digest.update(json.dumps(piece.values()).encode())
        return self._last_middle // self.part_bytes

    def digest(self) -> str:
        """Returns a hex digest of the pieces so far, in order."""
        digest: str = self._digest.hexdigest()
        return digest

    def listed(self) -> None:
        """Returns None."""

    def takes(self, piece: Piece) -> bool:
        """Counts the piece. Returns False."""
        if self.keep is not None:
            self.keep(piece, self.length)
        self.part_of(piece)
        return False

    def known(self, piece: Piece) -> Document | None:
        """Returns None."""
        del piece
        return None

    def found(self, piece: Piece, document: Document) -> None:
        """Does nothing."""


class Results(Protocol):
    """The results of other processes."""

    def get(self, piece: Piece) -> Document | None:
        """Returns the result of exactly this piece, or None."""
        ...

    def __len__(self) -> int:
        """0 if no other process has stored anything. Otherwise, any number greater than 0."""
        ...


@dataclass
class ScanOfPart(Scan):
    """Examines the pieces of one part, and turns their results into the contents of files."""

    part: int
    earlier: Results = field(default_factory=dict[Piece, Document])
    """The results that an earlier process stored for this part. Only pieces without a stored result are examined."""
    lists_units: bool = False
    division: Division = field(default_factory=Division)
    stored_listing: Callable[[], Iterator[Piece]] | None = None
    """Yields the pieces of the stored listing, from the piece at which `division` begins. None if the source has to be listed."""
    watch: Callable[[int], None] = lambda _: None
    """Called with the number of bytes in all pieces that have results so far."""
    store: Callable[[bytes], None] | None = None
    """Called with the content of each file, except the last one. None if all results belong in a single file of any size."""
    _coming: dict[Piece, Document] = field(default_factory=dict)
    _rows: list[str] = field(default_factory=list)
    """The results since the latest file, as JSON."""
    _common: dict[str, int] = field(default_factory=dict)
    """Maps each common string of these results to its number."""
    _file_bytes: int = 0
    _bytes: int = 0

    def listed(self) -> Iterator[Piece] | None:
        """Yields pieces of the stored listing, if there is one."""
        return self.stored_listing() if self.stored_listing is not None else None

    def takes(self, piece: Piece) -> bool:
        """Returns whether the piece is in the part. If so, also looks up the piece's earlier result. `known` can't do this lookup, because
        threads call `known` in any order."""
        if self.division.part_of(piece) != self.part:
            return False
        document = self.earlier.get(piece)
        if document is not None:
            self._coming[piece] = document
        return True

    def known(self, piece: Piece) -> Document | None:
        """Returns the earlier result, or None. May be called once for each piece."""
        return self._coming.pop(piece, None)

    def found(self, piece: Piece, document: Document) -> None:
        """Adds the result to the current file. If this file is full, stores it and begins another file."""
        if self.store is not None and self._file_bytes >= RESULTS_BYTES:
            self.store(self.to_bytes())
            self._rows, self._common, self._file_bytes = [], {}, 0
        number = None
        if isinstance(document, WithCommon):
            if document.common not in self._common:
                self._file_bytes += len(document.common)
            document, number = document.value, self._common.setdefault(document.common, len(self._common))
        self._rows.append(json.dumps([*piece.values(), document, number], separators=(",", ":")))
        self._file_bytes += len(self._rows[-1])
        before, self._bytes = self._bytes, self._bytes + piece.bytes
        if self._bytes // _WATCH_BYTES > before // _WATCH_BYTES:
            self.watch(self._bytes)

    def to_bytes(self) -> bytes:
        """Returns the content of the current file, which `results_in` can read.

        If there are several files, the current file contains at least one result.
        """
        content = f"[{json.dumps(list(self._common), separators=(',', ':'))},[{','.join(self._rows)}]]".encode()
        return hashlib.sha256(content).hexdigest().encode() + b"\n" + content


@dataclass
class ScannedBefore(Scan):
    """Uses the results of other processes. `load` is called when the first piece is needed."""

    load: Callable[[], Results]
    lists_units: bool = True
    _results: Results | None = None
    _coming: dict[Piece, Document] = field(default_factory=dict)
    """The results of pieces for which `takes` has been called, while `known` hasn't been called yet."""

    @property
    def has_results(self) -> bool:
        """Whether other processes have stored files, even if these files contain no results."""
        return self._results is not None and len(self._results) > 0

    def listed(self) -> None:
        """Returns None, because the source may have changed since it was scanned."""

    def takes(self, piece: Piece) -> bool:
        """Returns True, because the plan needs every piece. Also looks up the piece's result. `known` can't do this lookup, because threads
        call `known` in any order."""
        if self._results is None:
            self._results = self.load()
        document = self._results.get(piece)
        if document is not None:
            self._coming[piece] = document
        return True

    def known(self, piece: Piece) -> Document | None:
        """Returns the result of exactly this piece, or None. May be called once for each piece."""
        return self._coming.pop(piece, None)

    def found(self, piece: Piece, document: Document) -> None:
        """Does nothing."""


def results_in(content: bytes) -> dict[Piece, Document]:
    """Returns the results in a file that `to_bytes` made, or an empty dict if the file is damaged."""
    digest, _, text = content.partition(b"\n")
    if hashlib.sha256(text).hexdigest().encode() != digest:
        return {}
    common, rows = json.loads(text)
    results: dict[Piece, Document] = {}
    for *values, document, number in rows:
        results[Piece(*values)] = document if number is None else WithCommon(document, common[number])
    return results
