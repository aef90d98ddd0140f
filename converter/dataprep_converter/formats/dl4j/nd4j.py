"""Arrays in the format that ND4J's `Nd4j.write` writes.

# An array:   LONG buffer: rank | shape | strides | type flags | 1 | 99 for row-major        then a buffer of the values
# A buffer:   UTF "MIXED_DATA_TYPES" | int64 number of values | UTF type | values           (big-endian; UTF: uint16 length, bytes)
"""

import math
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

MODE: Final = b"MIXED_DATA_TYPES"
ROW_MAJOR: Final = 99


@dataclass(frozen=True)
class Kind:
    """An ND4J data type."""

    name: str
    flags: int
    """The flags that represent the type in the buffer with the array's shape."""


KINDS: Final[Mapping[str, Kind]] = {
    "float16": Kind("HALF", 0x1000),
    "float32": Kind("FLOAT", 0x2000),
    "float64": Kind("DOUBLE", 0x4000),
    "int8": Kind("BYTE", 0x8000),
    "int16": Kind("SHORT", 0x10000),
    "int32": Kind("INT", 0x20000),
    "int64": Kind("LONG", 0x40000),
    "uint8": Kind("UBYTE", 0x808000),
}
"""Maps numpy's type names to ND4J's types. BOOL is left out, because ND4J 1.0.0-M2.1 itself writes false as true."""


def array(values: npt.NDArray[Any]) -> list[bytes | memoryview]:
    """Return the bytes of an array, which must have at least one value."""
    kind = KINDS[values.dtype.name]
    strides = [math.prod(values.shape[axis + 1 :]) for axis in range(values.ndim)]
    shape = (values.ndim, *values.shape, *strides, kind.flags, 1, ROW_MAJOR)
    swapped = np.ascontiguousarray(values, values.dtype.newbyteorder(">"))
    return [
        buffer_head(len(shape), "LONG") + struct.pack(f">{len(shape)}q", *shape) + buffer_head(values.size, kind.name),
        memoryview(swapped.reshape(-1).view(np.uint8).data),
    ]


def buffer_head(length: int, kind: str) -> bytes:
    """Return the header that precedes a buffer's values."""
    return utf(MODE) + length.to_bytes(8, "big") + utf(kind.encode())


def utf(text: bytes) -> bytes:
    """Return ASCII text in the format that Java's `writeUTF` writes."""
    return len(text).to_bytes(2, "big") + text
