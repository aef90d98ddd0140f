"""Looks up what the processes of a scan found, without having all of it in memory.

The results of a large source take gigabytes, but the planner asks for them in the order in which the processes found them. So only the file
that has the latest result is kept, and 8 bytes for each piece, which say what file has the piece's result.
"""

import hashlib
import json
from array import array
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final

from dataprep_converter.core.lru import LruCache
from dataprep_converter.runtime.scans import Document, Piece

_KEPT_FILES: Final = 2
"""The number of files that are kept. The results of consecutive pieces can alternate between two files if one of them was made again."""
_NUMBER_BITS: Final = 20
_MOST_FILES: Final = 1 << _NUMBER_BITS


class StoredResults:
    """The results in files. Each file is read once to index it, and once more when the planner comes to its pieces."""

    def __init__(self, files: Sequence[str], read: Callable[[str], Mapping[Piece, Document]]) -> None:
        """`read` returns the results in a file, or none for a damaged file."""
        self._files = list(files[:_MOST_FILES])
        self._read = read
        self._latest: LruCache[str, Mapping[Piece, Document]] = LruCache(_KEPT_FILES)
        keys = (_key(piece) | number for number, file in enumerate(self._files) for piece in read(file))
        self._keys = array("Q", sorted(keys))

    def __len__(self) -> int:
        """The number of files, including damaged ones."""
        return len(self._files)

    def get(self, piece: Piece) -> Document | None:
        """The result of exactly this piece, or None."""
        key = _key(piece)
        for place in range(bisect_left(self._keys, key), len(self._keys)):
            if self._keys[place] - key >= _MOST_FILES:
                break
            file = self._files[self._keys[place] - key]
            document = self._latest.get(file, partial(self._read, file)).get(piece)
            if document is not None:
                return document
        return None


def _key(piece: Piece) -> int:
    """A digest of the piece, with zeros in place of the number of its file."""
    digest = hashlib.blake2b(json.dumps(piece.values()).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") >> _NUMBER_BITS << _NUMBER_BITS
