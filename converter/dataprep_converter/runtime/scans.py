"""A scan: several processes examine the files of a source before it is planned. Each process examines one part.

A *piece* is a file, or a cell of a large file. Every process lists the source itself and gives each piece the number of its part, so the
processes needn't communicate. What a process found in the pieces of its part is stored as JSON. The planner uses these results, and
examines only the pieces that have none. So the plan doesn't depend on how the pieces were divided.
"""

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from typing import Any, Final, Protocol, TypeAlias

PART_BYTES: Final = 1 << 30
"""At most this many bytes are read for a part, unless it has a single larger piece."""

RESULTS_BYTES: Final = 2 << 20
"""The results of a part are stored in files of about this many bytes, or in larger ones of a single result. In memory, the results take
several times as much."""

_WATCH_BYTES: Final = 32 << 20
"""Progress is reported after this many bytes."""

Document: TypeAlias = Any
"""What was found in a piece: a JSON value or a `WithCommon`."""


@dataclass(frozen=True, slots=True)
class WithCommon:
    """A JSON value, and a text that many pieces have in common, such as a schema. Equal texts are stored once."""

    value: Any
    common: str


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
    """The rule by which the piece is examined. Empty if the source and the release determine it."""

    def values(self) -> list[Any]:
        """Returns the values of the fields, in order, as JSON values."""
        return [getattr(self, name) for name in _FIELDS]


_FIELDS: Final = tuple(each.name for each in fields(Piece))


class Scan(Protocol):
    """Says what happens to each piece when a source is examined."""

    lists_units: bool
    """Whether the planner continues with the results. Otherwise, only the results are of interest."""

    def takes(self, piece: Piece) -> bool:
        """Whether this process needs to know what is in the piece. Called once for each piece, in order."""
        ...

    def known(self, piece: Piece) -> Document | None:
        """Returns what another process found in the piece, or None. Several threads may call this method."""
        ...

    def found(self, piece: Piece, document: Document) -> None:
        """Called in the order of the pieces, with what this process found in a piece."""
        ...


@dataclass
class Division(Scan):
    """Gives each piece the number of its part. As a `Scan`, it only counts the pieces."""

    group: int = 1
    """How many parts of `part_bytes` are joined into one part."""
    lists_units: bool = False
    part_bytes: int = field(default_factory=lambda: PART_BYTES)
    """The maximum number of bytes of a part before parts are joined, unless the part has a single larger piece."""
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
        """Joins parts so that there are at most `most`. Must be called when all pieces have been counted."""
        self.group = max(1, -(-self._small_parts // most))

    def part_of(self, piece: Piece) -> int:
        """Returns the number of the part to which the piece belongs. Must be called for each piece, in order."""
        if not self._small_parts or self._bytes_in_part + piece.bytes > self.part_bytes:
            self._small_parts += 1
            self._bytes_in_part = 0
        self._bytes_in_part += piece.bytes
        self.pieces += 1
        self.bytes += piece.bytes
        self._digest.update(json.dumps(piece.values()).encode())
        return (self._small_parts - 1) // self.group

    def digest(self) -> str:
        """Returns a hex digest of the pieces so far, in order."""
        digest: str = self._digest.hexdigest()
        return digest

    def takes(self, piece: Piece) -> bool:
        """Counts the piece. Returns False."""
        self.part_of(piece)
        return False

    def known(self, piece: Piece) -> Document | None:
        """Returns None."""
        del piece
        return None

    def found(self, piece: Piece, document: Document) -> None:
        """Does nothing."""


class Results(Protocol):
    """What other processes found."""

    def get(self, piece: Piece) -> Document | None:
        """Returns the result of exactly this piece, or None."""
        ...

    def __len__(self) -> int:
        """0 if no other process has stored anything."""
        ...


@dataclass
class ScanOfPart(Scan):
    """Examines the pieces of one part and collects what is found in them, as the contents of files."""

    part: int
    earlier: Results = field(default_factory=dict[Piece, Document])
    """The results that an earlier process stored for this part. Only the other pieces are examined."""
    lists_units: bool = False
    division: Division = field(default_factory=Division)
    watch: Callable[[int], None] = lambda _: None
    """Called with the number of bytes in the pieces whose results are known so far."""
    store: Callable[[bytes], None] | None = None
    """Called with the content of each file, except the last one. None if there is only one file, however large it is."""
    _coming: dict[Piece, Document] = field(default_factory=dict)
    _rows: list[str] = field(default_factory=list)
    """The results since the latest file, as JSON."""
    _common: dict[str, int] = field(default_factory=dict)
    """The numbers of the common texts of these results."""
    _file_bytes: int = 0
    _bytes: int = 0

    def takes(self, piece: Piece) -> bool:
        """Whether the piece is in the part. Looks up its earlier result, because threads call `known` in any order."""
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
        """Collects the result. If it doesn't fit into the file, begins another file."""
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
        """Returns the content of the last file, which has at least one result if there are several files. `results_in` reads it."""
        content = f"[{json.dumps(list(self._common), separators=(',', ':'))},[{','.join(self._rows)}]]".encode()
        return hashlib.sha256(content).hexdigest().encode() + b"\n" + content


@dataclass
class ScannedBefore(Scan):
    """Uses the results of other processes. `load` is called for the first piece."""

    load: Callable[[], Results]
    lists_units: bool = True
    _results: Results | None = None
    _coming: dict[Piece, Document] = field(default_factory=dict)
    """The results of pieces for which `takes` was called, but `known` wasn't yet."""

    @property
    def has_results(self) -> bool:
        """Whether other processes have stored results."""
        return self._results is not None and len(self._results) > 0

    def takes(self, piece: Piece) -> bool:
        """Returns True, because the plan needs every piece. Looks up the result, because threads call `known` in any order."""
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
    """Returns the results in a file that `to_bytes` made, or none if the file is damaged."""
    digest, _, text = content.partition(b"\n")
    if hashlib.sha256(text).hexdigest().encode() != digest:
        return {}
    common, rows = json.loads(text)
    results: dict[Piece, Document] = {}
    for *values, document, number in rows:
        results[Piece(*values)] = document if number is None else WithCommon(document, common[number])
    return results
