"""Looks up the results that the processes of a scan have stored (`scans.py`).

The results of a large source take gigabytes. The planner needs them in the order in which they are stored, so only the results of
_KEPT_FILES files are kept in memory. For each piece, another 8 bytes in memory identify the file that contains the piece's result.
"""

import hashlib
import json
from array import array
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from functools import partial
from typing import Final

import numpy as np

from dataprep_converter.core.lru import LruCache
from dataprep_converter.runtime.ahead import mapped_ahead
from dataprep_converter.runtime.scans import Document, Piece

_KEPT_FILES: Final = 2
"""The number of files whose results are kept in memory.

The number is greater than one, because consecutive pieces can alternate between two files if one of the files was made again.
"""
FILES_AT_ONCE: Final = 8
"""The number of files that are read or removed at the same time."""
_NUMBER_BITS: Final = 20
_MOST_FILES: Final = 1 << _NUMBER_BITS


class StoredResults:
    """Stored results. Each file is read twice: first to index its pieces, and again when the planner needs the results of these pieces."""

    def __init__(self, files: Sequence[str], read: Callable[[str], Mapping[Piece, Document]]) -> None:
        """`read` returns the results in a file, or an empty mapping for a damaged file. Several threads may call `read`."""
        self._files = list(files[:_MOST_FILES])
        self._read = read
        self._latest: LruCache[str, Mapping[Piece, Document]] = LruCache(_KEPT_FILES)
        self._keys = array("Q")
        with closing(mapped_ahead(self._keys_of_file, range(len(self._files)), most=FILES_AT_ONCE)) as keys_of_files:
            for keys in keys_of_files:
                self._keys += keys
        np.frombuffer(self._keys, np.uint64).sort()

    def __len__(self) -> int:
        """The number of files, including damaged ones."""
        return len(self._files)

    def get(self, piece: Piece) -> Document | None:
        """Returns the result of exactly this piece, or None."""
        key = _key(piece)
        for place in range(bisect_left(self._keys, key), len(self._keys)):
            if self._keys[place] - key >= _MOST_FILES:
                break
            file = self._files[self._keys[place] - key]
            document = self._latest.get(file, partial(self._read, file)).get(piece)
            if document is not None:
                return document
        return None

    def _keys_of_file(self, number: int) -> "array[int]":
        return array("Q", (_key(piece) | number for piece in self._read(self._files[number])))


def _key(piece: Piece) -> int:
    """Returns a digest of the piece. The digest's last bits are zeros, to leave room for the number of a file."""
    digest = hashlib.blake2b(json.dumps(piece.values()).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") >> _NUMBER_BITS << _NUMBER_BITS
