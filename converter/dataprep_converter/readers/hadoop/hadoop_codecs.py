"""Hadoop's compression codecs. A sequence file names the Java class of its codec. Sizes stated in compressed data are never trusted.

# Snappy:  (int32 bytes of contents | (int32 bytes | raw Snappy)…)…      (big-endian)
# The codecs other than Snappy are ordinary streams.
"""

import bz2
import struct
import zlib
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

import pyarrow as pa

from dataprep_converter.core.errors import BadSpec
from dataprep_converter.inputs.gzip_inflate import GZIP

Unpack = Callable[[bytes, int], bytes]
"""Decompresses bytes. The second argument is the largest allowed size of the contents. Raises ValueError for invalid bytes."""

_arrow: Any = pa  # the type stubs lack a codec's arguments
_PACKAGE: Final = "org.apache.hadoop.io.compress."
_INT: Final = struct.Struct(">I")


def unpacker(java: str, uri: str) -> Unpack:
    """The function that decompresses the streams of a codec, given the codec's Java class. For an unknown codec, raises BadSpec, which
    names the file and the known codecs."""
    if java not in CODECS:
        names = ", ".join(name.removeprefix(_PACKAGE) for name in CODECS)
        raise BadSpec(f"{uri} is compressed with {java}; known: {names}.", uri=uri)
    return CODECS[java]


def _streams(make: Callable[[], Any], error_type: type[Exception], data: bytes, most: int) -> bytes:
    """Decompresses one or several complete streams."""
    content = b""
    while data:
        stream = make()
        try:
            content += stream.decompress(data, most + 1 - len(content))
            while not stream.eof and len(content) <= most:
                # The library has all the input, but might still hold output that didn't fit into the buffer.
                more = stream.decompress(getattr(stream, "unconsumed_tail", b""), most + 1 - len(content))
                if not more and not stream.eof:
                    raise ValueError("a truncated compressed stream")
                content += more
        except (error_type, EOFError) as exc:
            raise ValueError(f"a broken compressed stream ({exc})") from exc
        if len(content) > most:
            raise ValueError(f"a compressed stream of more than {most:,} bytes")
        data = stream.unused_data
    return content


def _snappy(data: bytes, most: int) -> bytes:
    content = bytearray()
    at = 0
    while at < len(data):
        total, at = _int(data, at)
        end = len(content) + total
        if end > most:
            raise ValueError(f"a compressed stream of more than {most:,} bytes")
        while len(content) < end:
            size, at = _int(data, at)
            chunk, at = data[at : at + size], at + size
            if at > len(data):
                raise ValueError("a truncated compressed stream")
            try:
                content += _arrow.Codec("snappy").decompress(chunk, _snappy_size(chunk, end - len(content)), asbytes=True)
            except OSError as exc:
                raise ValueError(f"a broken compressed stream ({exc})") from exc
    return bytes(content)


def _snappy_size(chunk: bytes, most: int) -> int:
    """The size of a chunk's contents. This size is stored at the start of the chunk, as a number with seven bits per byte, low bits
    first."""
    size = 0
    for shift, byte in zip(range(0, 35, 7), chunk, strict=False):
        size |= (byte & 0x7F) << shift
        if byte < 0x80:
            if not 0 < size <= most:
                break
            return size
    raise ValueError(f"a compressed chunk whose contents are not 1 to {most:,} bytes")


def _zstandard(data: bytes, most: int) -> bytes:
    try:
        with _arrow.CompressedInputStream(_arrow.BufferReader(data), "zstd") as stream:
            content: bytes = stream.read(most + 1)
    except OSError as exc:
        raise ValueError(f"a broken compressed stream ({exc})") from exc
    if len(content) > most:
        raise ValueError(f"a compressed stream of more than {most:,} bytes")
    return content


def _int(data: bytes, at: int) -> tuple[int, int]:
    if len(data) - at < _INT.size:
        raise ValueError("a truncated compressed stream")
    return _INT.unpack_from(data, at)[0], at + _INT.size


_deflate: Final = partial(_streams, zlib.decompressobj, zlib.error)

CODECS: Final[Mapping[str, Unpack]] = {
    f"{_PACKAGE}DefaultCodec": _deflate,
    f"{_PACKAGE}DeflateCodec": _deflate,
    f"{_PACKAGE}GzipCodec": partial(_streams, partial(zlib.decompressobj, GZIP), zlib.error),
    f"{_PACKAGE}BZip2Codec": partial(_streams, bz2.BZ2Decompressor, OSError),
    f"{_PACKAGE}SnappyCodec": _snappy,
    f"{_PACKAGE}ZStandardCodec": _zstandard,
}
"""The known codecs by class. The LZ4 codec is not supported, because its chunks don't state the size of their contents."""
