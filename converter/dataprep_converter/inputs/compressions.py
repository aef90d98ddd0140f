"""Decompresses files piece by piece: gzip, bzip2, xz, Zstandard and LZ4 frames. A file may consist of several streams in a row.

A compression is recognised by a file's first bytes, never by its name. Memory is bounded: a piece has at most 1 MiB, and a stream is
refused if it needs a larger window than common programs use. For gzip, see `gzip_inflate.py`.
"""

import bz2
import io
import lzma
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final, Literal, TypeAlias

import pyarrow as pa

from dataprep_converter.inputs import gzip_inflate

Compression: TypeAlias = Literal["gzip", "bzip2", "xz", "zstd", "lz4"]

GZIP_MAGIC: Final = b"\x1f\x8b"
MAGIC_BYTES: Final = 10
"""`compression_of` needs this many bytes from the beginning of a file."""
SUFFIXES: Final = (".gz", ".bz2", ".xz", ".zst", ".lz4")
"""The usual file name extensions of compressed files."""

_MAGICS: Final[tuple[tuple[bytes, Compression], ...]] = (
    (GZIP_MAGIC, "gzip"),
    (b"\xfd7zXZ\0", "xz"),
    (b"\x28\xb5\x2f\xfd", "zstd"),
    (b"\x04\x22\x4d\x18", "lz4"),
)
_BZIP2_BLOCKS: Final = (b"\x31\x41\x59\x26\x53\x59", b"\x17\x72\x45\x38\x50\x90")
"""The magic numbers of a block and of the stream's end. A bzip2 file begins with `BZh`, a digit from 1 to 9, and one of these numbers.

The digit isn't enough to recognise bzip2, because text may begin with `BZh9`.
"""
_NAMES: Final = {"gzip": "gzip", "bzip2": "bzip2", "xz": "xz", "zstd": "Zstandard", "lz4": "LZ4"}
_PIECE: Final = 1 << 20
_SLICE: Final = 256 << 10
_XZ_MEMORY: Final = 128 << 20
"""The memory limit for decompressing xz. Files made with `xz -9` need 65 MiB. The Zstandard library sets the same limit itself."""

_arrow: Any = pa  # the type stubs don't cover compressed streams over Python files


class BrokenStream(ValueError):
    """Raised for a compressed stream that isn't valid or ends early."""


def compression_of(head: bytes) -> Compression | None:
    """Returns the compression of a file that begins with `head` (at least MAGIC_BYTES bytes). None means uncompressed."""
    if head[:3] == b"BZh" and head[3:4] in b"123456789" and head[4:10] in _BZIP2_BLOCKS:
        return "bzip2"
    return next((name for magic, name in _MAGICS if head.startswith(magic)), None)


def without_suffix(name: str) -> str:
    """Returns a file's name without the extension of its compression."""
    suffix = next((suffix for suffix in SUFFIXES if name.lower().endswith(suffix)), "")
    return name[: len(name) - len(suffix)]


def decompressed(pieces: Iterable[bytes], compression: Compression) -> Iterator[bytes]:
    """Yields the contents of a compressed file, in pieces of at most 1 MiB. Raises BrokenStream at the first fault."""
    if compression == "gzip":
        return gunzipped(pieces)
    if compression == "bzip2":
        return _joined_streams(pieces, bz2.BZ2Decompressor, errors=(OSError, EOFError), compression=compression)
    if compression == "xz":
        return _joined_streams(pieces, _xz_stream, errors=(lzma.LZMAError, EOFError), compression=compression)
    return _of_arrow(pieces, compression)


def gunzipped(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """Yields the contents of a gzip stream of one or more members, in pieces of at most 1 MiB. Raises BrokenStream."""
    member = gzip_inflate.member()
    is_inside = False
    any_member = False
    head = b""
    for piece in _slices(pieces):
        data, head = head + piece, b""
        while data:
            if not is_inside and any_member and not data.strip(b"\0"):
                # Some tools pad the end of a stream with zeros, up to a full tape or disk block.
                break
            if not is_inside and len(data) < _PIECE and not gzip_inflate.header_is_whole(data):
                head = data
                break
            is_inside = any_member = True
            try:
                out = member.decompress(data, _PIECE)
            except gzip_inflate.ERRORS as exc:
                raise BrokenStream(f"not valid gzip: {exc}") from exc
            data = member.unconsumed_tail
            if member.eof:
                data = member.unused_data
                member = gzip_inflate.member()
                is_inside = False
            if out:
                yield out
    while is_inside and (out := _inflate_rest(member)):
        yield out
    if is_inside or head:
        raise BrokenStream("the gzip stream ends early")


def _slices(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """Splits the pieces into smaller ones, because the inflater copies the unused rest of a piece."""
    for piece in pieces:
        for start in range(0, len(piece), _SLICE):
            yield piece[start : start + _SLICE]


def _inflate_rest(member: Any) -> bytes:
    try:
        return bytes(member.decompress(b"", _PIECE)) if not member.eof else b""
    except gzip_inflate.ERRORS as exc:
        raise BrokenStream(f"not valid gzip: {exc}") from exc


def _xz_stream() -> lzma.LZMADecompressor:
    return lzma.LZMADecompressor(format=lzma.FORMAT_XZ, memlimit=_XZ_MEMORY)


def _joined_streams(
    pieces: Iterable[bytes], start: Callable[[], Any], *, errors: tuple[type[Exception], ...], compression: Compression
) -> Iterator[bytes]:
    """Decompresses one stream after another. `start` returns a decompressor of the standard library for the next stream."""
    stream = start()
    is_inside = any_stream = False
    for piece in _slices(pieces):
        data = piece
        while data or (is_inside and not stream.needs_input):
            if not is_inside:
                # Zeros may fill a file up to a full block; xz calls them stream padding.
                data = data.lstrip(b"\0") if any_stream else data
                if not data:
                    break
                is_inside = any_stream = True
            try:
                out = stream.decompress(data, _PIECE)
            except errors as exc:
                if "Memory usage limit" in str(exc):
                    raise BrokenStream(f"the {compression} stream needs more than {_XZ_MEMORY >> 20} MiB to be decompressed") from exc
                raise BrokenStream(f"not valid {compression}: {exc}") from exc
            data = b""
            if stream.eof:
                data = stream.unused_data
                stream = start()
                is_inside = False
            if out:
                yield out
    if is_inside:
        raise BrokenStream(f"the {compression} stream ends early")


def _of_arrow(pieces: Iterable[bytes], compression: Compression) -> Iterator[bytes]:
    file = _File(pieces)
    try:
        with _arrow.CompressedInputStream(_arrow.PythonFile(file, mode="r"), compression) as stream:
            while piece := stream.read(_PIECE):
                yield piece
    except (pa.ArrowException, OSError, ValueError) as exc:
        if file.error is not None:
            raise file.error from None
        raise BrokenStream(f"incomplete or damaged {_NAMES[compression]} stream: {' '.join(str(exc).split())}") from exc


class _File(io.RawIOBase):
    """Presents the pieces as a file that is read sequentially."""

    def __init__(self, pieces: Iterable[bytes]) -> None:
        super().__init__()
        self._pieces = iter(pieces)
        self._buffer = b""
        self.error: Exception | None = None
        """The error that reading the pieces raised, such as a store's error.

        It is kept here, because Arrow raises a different error instead.
        """

    def readable(self) -> bool:
        """Returns True."""
        return True

    def read(self, size: int = -1) -> bytes:
        """Returns at most `size` bytes of the next piece."""
        if not self._buffer:
            try:
                self._buffer = next(filter(None, self._pieces), b"")
            except Exception as exc:
                self.error = exc
                raise
        end = len(self._buffer) if size < 0 else size
        data, self._buffer = self._buffer[:end], self._buffer[end:]
        return data
