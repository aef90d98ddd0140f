"""Decompress a stream piece by piece. A damaged stream is decompressed up to the fault."""

import io
from collections.abc import Iterable, Iterator
from typing import Any, Final

import pyarrow as pa

from dataprep_converter.core.errors import BrokenRecord
from dataprep_converter.inputs.pinned import BrokenGzip, gunzipped

_PIECE: Final = 4 << 20
_arrow: Any = pa  # the type stubs don't cover compressed streams over Python files


def decompressed(pieces: Iterable[bytes], compression: str) -> Iterator[bytes]:
    """Yield the decompressed pieces. Raises BrokenRecord at the first fault.

    `compression` is the manifest's value: `none`, `gzip` or `zstd`.
    """
    if compression == "none":
        yield from pieces
        return
    size = 0
    try:
        for piece in gunzipped(pieces) if compression == "gzip" else _zstd(pieces):
            yield piece
            size += len(piece)
    except (BrokenGzip, _BrokenZstd) as exc:
        raise BrokenRecord(f"{exc}, after {size:,} bytes of records,", offset=size) from exc


class _BrokenZstd(Exception):
    """Raised for a Zstandard stream that is incomplete or damaged."""


class _File(io.RawIOBase):
    """Presents the pieces as a file that is read sequentially."""

    def __init__(self, pieces: Iterable[bytes]) -> None:
        super().__init__()
        self._pieces = iter(pieces)
        self._buffer = b""

    def readable(self) -> bool:
        """Return True."""
        return True

    def read(self, size: int = -1) -> bytes:
        """Return at most `size` bytes of the next piece."""
        if not self._buffer:
            self._buffer = next(filter(None, self._pieces), b"")
        end = len(self._buffer) if size < 0 else size
        data, self._buffer = self._buffer[:end], self._buffer[end:]
        return data


def _zstd(pieces: Iterable[bytes]) -> Iterator[bytes]:
    try:
        with _arrow.CompressedInputStream(_arrow.PythonFile(_File(pieces), mode="r"), "zstd") as stream:
            while piece := stream.read(_PIECE):
                yield piece
    except (pa.ArrowException, OSError, ValueError) as exc:
        raise _BrokenZstd(f"incomplete or damaged Zstandard stream: {' '.join(str(exc).split())}") from exc
