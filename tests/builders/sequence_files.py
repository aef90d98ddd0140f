"""Hadoop sequence files, written from the format's specification."""

import struct
import zlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pyarrow as pa

IO = "org.apache.hadoop.io."
SYNC = bytes(range(16))
ESCAPE = b"\xff\xff\xff\xff" + SYNC
Pair = tuple[bytes, bytes]


def name(java: str) -> bytes:
    """Encode the name of a Java class as in the header."""
    return bytes([len(java)]) + java.encode()


def head(key: str, value: str, *, compression: str = "None", codec: str = "DefaultCodec", about: Mapping[str, str] | None = None) -> bytes:
    """Encode a file's header. All names are shorter than 128 bytes, so each length is one byte."""
    classes = b"".join(name(java if "." in java else IO + java) for java in (key, value))
    flags = bytes([compression != "None", compression == "Block"])
    packed = name(f"{IO}compress.{codec}") if compression != "None" else b""
    pairs = b"".join(name(word) for pair in (about or {}).items() for word in pair)
    return b"SEQ\x06" + classes + flags + packed + struct.pack(">i", len(about or {})) + pairs + SYNC


def records(pairs: Sequence[Pair], *, sync_every: int = 10) -> bytes:
    """Encode uncompressed records, with a sync mark before every tenth record."""
    made = b""
    for number, (key, value) in enumerate(pairs):
        made += ESCAPE if number % sync_every == sync_every - 1 else b""
        made += struct.pack(">ii", len(key) + len(value), len(key)) + key + value
    return made


def vint(number: int) -> bytes:
    """Encode a number from 0 to 65,535 as Hadoop's VInt."""
    return bytes([number]) if number < 128 else b"\x8f" + bytes([number]) if number < 256 else b"\x8e" + struct.pack(">H", number)


def block(pairs: Sequence[Pair], pack: Callable[[bytes], bytes] = zlib.compress) -> bytes:
    """Encode records as a compressed block."""
    made = ESCAPE + vint(len(pairs))
    for column in zip(*pairs, strict=True):
        for content in (b"".join(vint(len(each)) for each in column), b"".join(column)):
            packed = pack(content)
            made += vint(len(packed)) + packed
    return made


def text(value: str) -> bytes:
    """Encode a string as Hadoop's Text."""
    return vint(len(value.encode())) + value.encode()


def numbered(count: int, first: int = 0) -> list[Pair]:
    """Return pairs of a Text and a LongWritable."""
    return [(text(f"k{first + n}" * (n % 40)), struct.pack(">q", first + n)) for n in range(count)]


def snappy(content: bytes) -> bytes:
    """Compress the content in two pieces, as Hadoop's block streams do. Empty content has no pieces."""
    pieces = [content[: len(content) // 2], content[len(content) // 2 :]] if content else []
    codec: Any = pa.Codec("snappy")
    packed = [codec.compress(piece, asbytes=True) for piece in pieces if piece]
    return struct.pack(">I", len(content)) + b"".join(struct.pack(">I", len(each)) + each for each in packed)
