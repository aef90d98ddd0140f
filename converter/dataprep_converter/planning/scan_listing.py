"""The stored listing of a scan: the pieces of the source (its files, or cells of large files), in order. Each part of the scan reads only
the blocks that contain its pieces.

    listing-<digest>.zst     blocks of 8192 pieces, each a Zstandard frame with a line of JSON for each piece
    listing-<digest>.index   for each block its size, its digest, and the length of the pieces before it; written last

A part consists of consecutive pieces (`runtime/scans.py`), and the index shows which blocks contain these pieces. The blocks are next to
each other in the file. So a part sends a constant number of requests, even if the other parts have many files. The listing only saves time:
if it is missing or damaged, each part lists the source itself. A release that writes another form of these files must give them other
extensions.
"""

import hashlib
import json
import logging
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import accumulate, pairwise
from typing import Final, Self

from dataprep_converter.core.closeable import Closeable, closed_on_error
from dataprep_converter.core.compression import ZstdFrame
from dataprep_converter.core.errors import InputChanged, NotFound
from dataprep_converter.dataset.stored_folder import StoredFolder
from dataprep_converter.inputs.compressions import decompressed
from dataprep_converter.runtime.scans import Division, Piece
from dataprep_converter.runtime.temporary import IN_MEMORY, TemporaryFile

logger = logging.getLogger(__name__)

_PIECES: Final = 8192
"""The number of pieces in a block. A part reads at least one block, and the index has 90 bytes for each block."""
_LEVEL: Final = 1
"""The level of compression. Even this low level is effective, because pieces that follow each other have similar names."""
_WHAT: Final = "the listing of a scan"


@dataclass
class _Index:
    """The blocks of a listing, in order."""

    before: list[int]
    """For each block, the length of the pieces before it."""
    sizes: list[int]
    """For each block, its size in bytes."""
    sha256: list[str]

    def to_bytes(self) -> bytes:
        """Returns the content of the index file. The digest is at the end, because earlier releases read every file of a scan, and treat a
        file as results if it begins with its own digest."""
        text = json.dumps(asdict(self)).encode()
        return text + b"\n" + hashlib.sha256(text).hexdigest().encode()

    @classmethod
    def from_bytes(cls, content: bytes) -> Self | None:
        """Returns the index from which `to_bytes` made the content, or None if the content is damaged."""
        text, _, digest = content.rpartition(b"\n")
        return cls(**json.loads(text)) if hashlib.sha256(text).hexdigest().encode() == digest else None


class NewListing(Closeable):
    """Collects the pieces of a source in a file in $TMPDIR, so that they can be stored when all pieces are known."""

    def __init__(self) -> None:
        self._file = TemporaryFile(_WHAT, in_memory=IN_MEMORY)
        self._lines: list[str] = []
        """The pieces since the latest block, as JSON."""
        self._index = _Index([], [], [])

    def add(self, piece: Piece, before: int) -> None:
        """Adds the next piece. `before` is the total length of all earlier pieces. Raises StoreFull."""
        if not self._lines:
            self._index.before.append(before)
        self._lines.append(json.dumps([*piece.values(), piece.root, piece.path]))
        if len(self._lines) == _PIECES:
            self._end_block()

    def _end_block(self) -> None:
        frame = ZstdFrame(_LEVEL)
        frame.compress("\n".join(self._lines).encode())
        block = frame.finish()
        self._file.write(block)
        self._index.sizes.append(len(block))
        self._index.sha256.append(hashlib.sha256(block).hexdigest())
        self._lines = []

    def put(self, folder: StoredFolder, path: str) -> None:
        """Stores the listing at this path in the folder, if it isn't stored yet. Call this method when all pieces have been added."""
        if self._lines:
            self._end_block()
        index = self._index.to_bytes()
        if folder.read(_index_of(path)) == index:
            return
        folder.put_file(_blocks_of(path), self._file.pieces(), size=self._file.size)
        folder.put_hidden(_index_of(path), index)

    def close(self) -> None:
        """Removes the file in $TMPDIR."""
        self._file.close()


class ListingOfPart(Closeable):
    """The data that a part of a scan needs from the stored listing."""

    def __init__(self, part_bytes: int, blocks: "_Blocks | None" = None) -> None:
        """`part_bytes` is the length of the parts. Without blocks, the part has to list the source."""
        self._part_bytes = part_bytes
        self._blocks = blocks

    @property
    def division(self) -> Division:
        """A division that has already counted all pieces before the first piece of `pieces`."""
        return Division(self._part_bytes, length=self._blocks.before if self._blocks is not None else 0)

    @property
    def pieces(self) -> Callable[[], Iterator[Piece]] | None:
        """A function that yields the pieces in the blocks, in order, or None if the part has to list the source. The first and the last
        pieces may belong to neighbouring parts."""
        return self._blocks.pieces if self._blocks is not None else None

    def close(self) -> None:
        """Removes temporary files."""
        if self._blocks is not None:
            self._blocks.close()


def read_listing(folder: StoredFolder, path: str, part: int, *, part_bytes: int) -> ListingOfPart:
    """Reads the blocks of the listing that part number `part` needs. `part_bytes` is the length of the parts. If the listing is missing or
    damaged, the part has to list the source."""
    content = folder.read(_index_of(path))
    if content is None:
        logger.info("%s doesn't exist, so this part lists the source", folder.at(_index_of(path)))
        return ListingOfPart(part_bytes)
    index = _Index.from_bytes(content)
    blocks = _read_blocks(folder, _blocks_of(path), index, part, part_bytes) if index is not None else None
    if blocks is None:
        logger.warning("the listing %s is damaged, so this part lists the source", folder.at(path))
    return ListingOfPart(part_bytes, blocks)


class _Blocks(Closeable):
    """Consecutive blocks of a listing, in a file in $TMPDIR."""

    def __init__(self, file: TemporaryFile, sizes: Sequence[int], *, before: int) -> None:
        self._file = file
        self._ends = list(accumulate(sizes, initial=0))
        self.before = before
        """The length of the pieces before the first block."""

    def pieces(self) -> Iterator[Piece]:
        """Yields the pieces of the blocks, in order."""
        for block in self.contents():
            for line in b"".join(decompressed([block], "zstd")).splitlines():
                yield Piece(*json.loads(line))

    def contents(self) -> Iterator[bytes]:
        """Yields the bytes of each block."""
        return (self._file.read_at(start, end - start) for start, end in pairwise(self._ends))

    def close(self) -> None:
        """Removes the file."""
        self._file.close()


def _read_blocks(folder: StoredFolder, path: str, index: _Index, part: int, part_bytes: int) -> _Blocks | None:
    """Reads the blocks that contain a part's pieces. Returns None if any of these blocks is missing or damaged."""
    # A block ends where the next block begins. A piece belongs to the part that contains the middle of the piece.
    first = max(0, bisect_right(index.before, part * part_bytes) - 1)
    end = bisect_left(index.before, (part + 1) * part_bytes)
    sizes = index.sizes[first:end]
    try:
        file = TemporaryFile.of(_WHAT, folder.stream(path, sum(index.sizes[:first]), sum(sizes)))
    except (NotFound, InputChanged):
        return None
    with closed_on_error(file):
        blocks = _Blocks(file, sizes, before=index.before[first])
        if [hashlib.sha256(block).hexdigest() for block in blocks.contents()] == index.sha256[first:end]:
            return blocks
    file.close()
    return None


def _blocks_of(path: str) -> str:
    return f"{path}.zst"


def _index_of(path: str) -> str:
    return f"{path}.index"
