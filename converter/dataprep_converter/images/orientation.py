"""EXIF orientation: find it in a file without decoding the pixels, and rotate or mirror pixels accordingly.

To make an image upright, apply the change that is listed for its orientation:
1 none   2 mirror   3 rotate by 180°   4 flip vertically   5 transpose   6 rotate by 90° clockwise
7 transpose over the other diagonal   8 rotate by 90° counterclockwise
"""

import struct
from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from dataprep_converter.core.errors import BadSample
from dataprep_converter.images import heif_headers

Pixels = npt.NDArray[np.uint8]
"""An image as uint8[height, width, channels]."""

_TAG: Final = 0x0112
_SHORT: Final = 3
_EXIF: Final = b"Exif\0\0"
_MOST_ENTRIES: Final = 4096

_TURNS: Final[Mapping[int, Callable[[Pixels], Pixels]]] = {
    2: lambda image: image[:, ::-1],
    3: lambda image: image[::-1, ::-1],
    4: lambda image: image[::-1],
    5: lambda image: image.swapaxes(0, 1),
    6: lambda image: image[::-1].swapaxes(0, 1),
    7: lambda image: image[::-1, ::-1].swapaxes(0, 1),
    8: lambda image: image.swapaxes(0, 1)[::-1],
}
_BACK: Final = {6: 8, 8: 6}


def turned(image: Pixels, orientation: int) -> Pixels:
    """Return an upright view of the image."""
    return _TURNS[orientation](image) if orientation in _TURNS else image


def turned_back(image: Pixels, orientation: int) -> Pixels:
    """Rotate or mirror an upright image back to its stored orientation, and return it as a view."""
    return turned(image, _BACK.get(orientation, orientation))


def swaps_sides(orientation: int) -> bool:
    """Return whether the orientation swaps height and width."""
    return orientation >= 5


def of(data: bytes, kind: str) -> int:
    """Return the orientation of a complete file of the format `kind`: 1 to 8, or 1 if the orientation is missing or damaged."""
    try:
        if kind in ("avif", "heic"):
            # In these formats, the rotation is a property of the image. Any EXIF in the file is only a comment.
            return heif_headers.main_image(data, kind).orientation
        block = _BLOCKS[kind](data) if kind in _BLOCKS else None
        orientation = 1 if block is None else _orientation(block)
    except (struct.error, IndexError, BadSample):
        return 1
    return orientation if orientation in _TURNS else 1


def _jpeg(data: bytes) -> bytes | None:
    at = 2
    while data[at] == 0xFF:
        marker = data[at + 1]
        if marker == 0xFF:
            at += 1
            continue
        if marker == 0xDA:
            return None
        (length,) = struct.unpack_from(">H", data, at + 2)
        if marker == 0xE1 and data.startswith(_EXIF, at + 4):
            return data[at + 4 + len(_EXIF) : at + 2 + length]
        at += 2 + length
    return None


def _png(data: bytes) -> bytes | None:
    # A chunk: uint32 length | type | content | uint32 CRC; big-endian.
    at = 8
    while at + 8 <= len(data):
        length, kind = struct.unpack_from(">I4s", data, at)
        if kind == b"eXIf":
            return data[at + 8 : at + 8 + length]
        at += 12 + length
    return None


def _webp(data: bytes) -> bytes | None:
    # A chunk: type | uint32 length | content, padded to an even length; little-endian.
    at = 12
    while at + 8 <= len(data):
        kind, length = struct.unpack_from("<4sI", data, at)
        if kind == b"EXIF":
            return data[at + 8 : at + 8 + length].removeprefix(_EXIF)
        at += 8 + length + length % 2
    return None


_BLOCKS: Final[Mapping[str, Callable[[bytes], bytes | None]]] = {"jpeg": _jpeg, "png": _png, "webp": _webp, "tiff": lambda data: data}


def _orientation(block: bytes) -> int:
    """Return the orientation tag in the first directory of a TIFF structure."""
    order = {b"II": "<", b"MM": ">"}.get(block[:2])
    if order is None:
        return 1
    (version,) = struct.unpack_from(f"{order}H", block, 2)
    big = version == 43
    (at,) = struct.unpack_from(f"{order}Q", block, 8) if big else struct.unpack_from(f"{order}I", block, 4)
    (count,) = struct.unpack_from(f"{order}Q" if big else f"{order}H", block, at)
    first, step, value = (at + 8, 20, 12) if big else (at + 2, 12, 8)
    for entry in range(first, first + min(count, _MOST_ENTRIES) * step, step):
        tag, kind = struct.unpack_from(f"{order}HH", block, entry)
        if tag == _TAG and kind == _SHORT:
            values: tuple[Any, ...] = struct.unpack_from(f"{order}H", block, entry + value)
            return int(values[0])
    return 1
