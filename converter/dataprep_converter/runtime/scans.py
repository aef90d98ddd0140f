"""Divides the examination of a source's files among several processes, each of which examines one part of the pieces.

A *piece* is a file, or a cell of a large file. Every process lists the source itself, and gives each piece the number of its part, so that
the processes agree without talking to each other. What was found in the pieces of a part is stored as JSON. The planner takes these results
in place of examining the pieces, and examines every piece that has no result. So the plan doesn't depend on the division.
"""

import hashlib
import json
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Final, Protocol, TypeAlias

PART_BYTES: Final = 1 << 30
"""A part has at most this many bytes to be read, or a single larger piece."""

_WATCH_BYTES: Final = 32 << 20
"""Progress is reported after this many bytes."""

Document: TypeAlias = Any
"""What was found in a piece, as a JSON value. If it is an object with the text COMMON, pieces with the same text share it."""
COMMON: Final = "common"


@dataclass(frozen=True, slots=True)
class Piece:
    """A file, or a cell of a file, in a given version."""

    uri: str
    pin: str
    size: int
    """The size of the complete file in bytes."""
    cell: int | None
    """The number of the cell, or None for the complete file."""
    bytes: int
    """The number of bytes to be read."""
    rule: str = ""
    """The rule by which the piece is examined, if the source and the release alone don't determine it."""

    def values(self) -> list[Any]:
        """The values of the fields, in order, as JSON values."""
        return [getattr(self, name) for name in _FIELDS]


_FIELDS: Final = tuple(each.name for each in fields(Piece))


class Scan(Protocol):
    """Says what happens to each piece when a source is examined."""

    lists_units: bool
    """Whether the planner continues with the results. Otherwise, only the results are of interest."""

    def takes(self, piece: Piece) -> bool:
        """Whether this process has to find out what is in the piece. Is called once for each piece, in the order of the pieces."""
        ...

    def known(self, piece: Piece) -> Document | None:
        """What another process found in the piece, or None. Several threads may call it."""
        ...

    def found(self, piece: Piece, document: Document) -> None:
        """Takes what this process found in a piece."""
        ...


@dataclass
class Division(Scan):
    """Gives each piece the number of its part. As a `Scan`, it examines nothing."""

    group: int = 1
    """A part has the pieces of this many parts of `part_bytes`."""
    lists_units: bool = False
    part_bytes: int = field(default_factory=lambda: PART_BYTES)
    """A part before grouping has at most this many bytes, or a single larger piece."""
    pieces: int = 0
    """The number of pieces so far."""
    bytes: int = 0
    """The number of bytes in these pieces."""
    _small_parts: int = 0
    _bytes_in_part: int = 0
    _digest: Any = field(default_factory=hashlib.sha256)  # the type of hashlib's objects isn't public

    @property
    def parts(self) -> int:
        """The number of parts so far."""
        return -(-self._small_parts // self.group)

    def limit_parts(self, most: int) -> None:
        """Groups the parts so that there are at most `most`. Is called when all pieces are counted."""
        self.group = max(1, -(-self._small_parts // most))

    def part_of(self, piece: Piece) -> int:
        """The number of the part that has the next piece."""
        if not self._small_parts or self._bytes_in_part + piece.bytes > self.part_bytes:
            self._small_parts += 1
            self._bytes_in_part = 0
        self._bytes_in_part += piece.bytes
        self.pieces += 1
        self.bytes += piece.bytes
        self._digest.update(json.dumps(piece.values()).encode())
        return (self._small_parts - 1) // self.group

    def digest(self) -> str:
        """A hex digest of the pieces so far, in order."""
        digest: str = self._digest.hexdigest()
        return digest

    def takes(self, piece: Piece) -> bool:
        """Counts the piece."""
        self.part_of(piece)
        return False

    def known(self, piece: Piece) -> Document | None:
        """None."""
        del piece
        return None

    def found(self, piece: Piece, document: Document) -> None:
        """Does nothing."""


@dataclass
class ScanOfPart(Scan):
    """Examines the pieces of one part and collects what is found in them."""

    part: int
    earlier: Mapping[Piece, Document] = field(default_factory=dict)
    """The results that an earlier process stored for this part. Only the other pieces are examined."""
    lists_units: bool = False
    division: Division = field(default_factory=Division)
    watch: Callable[[int], None] = lambda _: None
    """Is called with the number of bytes in the pieces whose results are known so far."""
    results: dict[Piece, Document] = field(default_factory=dict)
    _common: dict[str, str] = field(default_factory=dict)
    _bytes: int = 0
    _one_at_a_time: threading.Lock = field(default_factory=threading.Lock)

    def takes(self, piece: Piece) -> bool:
        """Whether the piece is in the part."""
        return self.division.part_of(piece) == self.part

    def known(self, piece: Piece) -> Document | None:
        """The earlier result."""
        return self.earlier.get(piece)

    def found(self, piece: Piece, document: Document) -> None:
        """Collects the result. Keeps a text COMMON once."""
        with self._one_at_a_time:
            if isinstance(document, dict) and COMMON in document:
                text = document[COMMON]
                document = {**document, COMMON: self._common.setdefault(text, text)}
            self.results[piece] = document
            before, self._bytes = self._bytes, self._bytes + piece.bytes
            if self._bytes // _WATCH_BYTES > before // _WATCH_BYTES:
                self.watch(self._bytes)

    def to_bytes(self) -> bytes:
        """The results as the content of a file. `results_in` reads it."""
        numbers: dict[str, int] = {}
        rows: list[Any] = []
        for piece in sorted(self.results, key=lambda piece: (piece.uri, piece.cell or 0)):
            document = self.results[piece]
            if isinstance(document, dict) and COMMON in document:
                document = {**document, COMMON: numbers.setdefault(document[COMMON], len(numbers))}
            rows.append([*piece.values(), document])
        content = json.dumps([list(numbers), rows], separators=(",", ":")).encode()
        return hashlib.sha256(content).hexdigest().encode() + b"\n" + content


class Results(Protocol):
    """What other processes found."""

    def get(self, piece: Piece) -> Document | None:
        """The result of exactly this piece, or None."""
        ...

    def __len__(self) -> int:
        """0 if no other process has stored anything."""
        ...


@dataclass
class ScannedBefore(Scan):
    """Takes the results of other processes. `load` is called when the first piece is asked for."""

    load: Callable[[], Results]
    lists_units: bool = True
    _results: Results | None = None
    _coming: dict[Piece, Document] = field(default_factory=dict)
    """The results of pieces that threads will ask for."""

    @property
    def has_results(self) -> bool:
        """Whether other processes have stored results."""
        return self._results is not None and len(self._results) > 0

    def takes(self, piece: Piece) -> bool:
        """True, because the plan needs every piece. Looks up the result here, in the order of the pieces, before a thread asks for it."""
        if self._results is None:
            self._results = self.load()
        document = self._results.get(piece)
        if document is not None:
            self._coming[piece] = document
        return True

    def known(self, piece: Piece) -> Document | None:
        """The result for exactly this version of the file."""
        return self._coming.pop(piece, None)

    def found(self, piece: Piece, document: Document) -> None:
        """Does nothing."""


def results_in(content: bytes) -> dict[Piece, Document]:
    """The results in a file that `to_bytes` made, or none if the file is damaged."""
    digest, _, text = content.partition(b"\n")
    if hashlib.sha256(text).hexdigest().encode() != digest:
        return {}
    common, rows = json.loads(text)
    results: dict[Piece, Document] = {}
    for *values, document in rows:
        if isinstance(document, dict) and COMMON in document:
            document[COMMON] = common[document[COMMON]]
        results[Piece(*values)] = document
    return results
