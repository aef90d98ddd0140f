"""The lines of a text shard, for `jsonl` and `csv`."""

from collections.abc import Iterable, Iterator

import numpy as np

from dataprep_converter.core.errors import BrokenRecord
from dataprep_converter.formats.decompression import decompressed


def lines(pieces: Iterable[bytes], *, compression: str) -> Iterator[tuple[int, bytes]]:
    """Yield (offset, line with its line end) pairs of the uncompressed text.

    Raises BrokenRecord for a last line without a line end, and for damaged gzip.
    """
    offset = 0
    unfinished: list[bytes] = []
    for piece in decompressed(pieces, compression):
        complete, end, rest = piece.rpartition(b"\n")
        if end:
            for line in _split_lines(b"".join([*unfinished, complete, end])):
                yield offset, line
                offset += len(line)
            unfinished = []
        if rest:
            unfinished.append(rest)
    if unfinished:
        raise BrokenRecord(f"truncated record ({sum(map(len, unfinished))} bytes)", offset=offset)


def rounded(value: float, dtype: str) -> float:
    """Round `value` to the given type.

    If a number of this type was written as its shortest text, then parsing the text and rounding the result restores the number.
    """
    return float(np.dtype(dtype).type(value))


def _split_lines(data: bytes) -> Iterator[bytes]:
    start = 0
    while start < len(data):
        end = data.index(b"\n", start) + 1
        yield data[start:end]
        start = end
