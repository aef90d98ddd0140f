"""Compressed bytes of every kind."""

import bz2
import gzip
import lzma
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

import pyarrow as pa

_arrow: Any = pa  # the stubs lack a codec's arguments

PACKERS: Final[Mapping[str, Callable[[bytes], bytes]]] = {
    "gz": partial(gzip.compress, mtime=0),
    "bz2": bz2.compress,
    "xz": lzma.compress,
    "zst": lambda data: bytes(_arrow.Codec("zstd").compress(data, asbytes=True)),
    "lz4": lambda data: bytes(_arrow.Codec("lz4").compress(data, asbytes=True)),
}
"""Functions that compress bytes, by the file name ending of each compression."""
