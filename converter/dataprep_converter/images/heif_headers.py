"""Parse the boxes of AVIF and HEIC files: the file type, and the main image's size, rotation and mirroring.

AVIF and HEIC files are ISO base media files. Size, rotation and mirroring are properties of the main image, which can consist of tiles.
"""

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from dataprep_converter.core.errors import BadSample

_AVIF: Final = frozenset({b"avif", b"avis"})
_HEIC: Final = frozenset({b"heic", b"heix", b"heim", b"heis", b"hevc", b"hevx", b"mif1", b"msf1"})
_MOST_BOXES: Final = 65_536
"""The largest accepted number of boxes at one level. Cameras write about a hundred."""
_ORIENTATIONS: Final = {
    (0, None): 1, (1, None): 8, (2, None): 3, (3, None): 6,
    (0, 0): 4, (0, 1): 2, (1, 0): 5, (1, 1): 7, (2, 0): 2, (2, 1): 4, (3, 0): 7, (3, 1): 5,
}  # fmt: skip
"""Maps a pair (quarter turns counterclockwise, mirroring) to the EXIF orientation.

The mirroring follows the rotation: 0 swaps top and bottom, 1 swaps left and right, and None means no mirroring.
"""


@dataclass(frozen=True)
class MainImage:
    """The main image of a file."""

    format: str
    """`avif` or `heic`."""
    height: int
    width: int
    """The stored width, before any rotation."""
    orientation: int
    """The EXIF orientation that corresponds to the image's rotation and mirroring."""


def format_of(data: bytes) -> str | None:
    """Return `avif` or `heic`, according to the first box of a file, or None for any other file."""
    if data[4:8] != b"ftyp":
        return None
    # A box: uint32 size, including these 8 bytes | type | content; big-endian. The content of ftyp: brand | uint32 version | more brands.
    end = min(int.from_bytes(data[:4], "big"), 1024)
    brands = [data[8:12], *(data[at : at + 4] for at in range(16, end, 4))]
    if not _AVIF.isdisjoint(brands):
        return "avif"
    return "heic" if not _HEIC.isdisjoint(brands) else None


def main_image(data: bytes, kind: str) -> MainImage:
    """Parse a complete file of the format `kind`.

    Raises BadSample if the file is truncated or has no size, and struct.error if it ends within a header.
    """
    # Read all boxes: if one extends beyond the end of the file, the file is truncated.
    boxes = list(_boxes(data, 0, len(data), kind))
    meta = next((content for box, content in boxes if box == b"meta"), None)
    if meta is None:
        raise BadSample(f"damaged {kind}: it has no meta box")
    # meta, pitm, ipma and ispe have a version and flags before their content.
    parts = dict(_boxes(data, meta[0] + 4, meta[1], kind))
    if b"pitm" not in parts or b"iprp" not in parts:
        raise BadSample(f"damaged {kind}: it doesn't say which image is the main one")
    at = parts[b"pitm"][0]
    main = int.from_bytes(data[at + 4 : at + (6 if data[at] == 0 else 8)], "big")
    properties = dict(_boxes(data, *parts[b"iprp"], kind))
    if b"ipco" not in properties or b"ipma" not in properties:
        raise BadSample(f"damaged {kind}: its main image has no size")
    if b"idat" not in parts and all(box != b"mdat" for box, _ in boxes):
        raise BadSample(f"truncated {kind}: no pixels in {len(data):,} bytes")
    all_properties = list(_boxes(data, *properties[b"ipco"], kind))
    numbers = _properties_of(main, data, properties[b"ipma"])
    own = dict(all_properties[number - 1] for number in numbers if 0 < number <= len(all_properties))
    if b"ispe" not in own:
        raise BadSample(f"damaged {kind}: its main image has no size")
    width, height = struct.unpack_from(">II", data, own[b"ispe"][0] + 4)
    if kind == "heic" and b"clap" in own:
        # The HEIC decoder crops the image to the clean aperture; the AVIF decoder doesn't.
        wide, wide_by, high, high_by = struct.unpack_from(">4I", data, own[b"clap"][0])
        width, height = (wide // wide_by, high // high_by) if wide_by and high_by else (width, height)
    angle = data[own[b"irot"][0]] & 3 if b"irot" in own else 0
    mirror = data[own[b"imir"][0]] & 1 if b"imir" in own else None
    return MainImage(kind, height, width, _ORIENTATIONS[angle, mirror])


def _boxes(data: bytes, start: int, end: int, kind: str) -> Iterator[tuple[bytes, tuple[int, int]]]:
    """Yield the type of each box, and the offsets of its content. Raises BadSample for a box that extends beyond its parent box."""
    at = start
    for _ in range(_MOST_BOXES):
        if at + 8 > end:
            return
        size, box = struct.unpack_from(">I4s", data, at)
        head = 8
        if size == 1:
            (size,) = struct.unpack_from(">Q", data, at + 8)
            head = 16
        stop = end if size == 0 else at + size
        if stop > len(data):
            raise BadSample(f"truncated {kind}: {len(data):,} of {stop:,} bytes")
        if size and (size < head or stop > end):
            raise BadSample(f"damaged {kind}: a box at byte {at:,} has a size of {size:,}")
        yield box, (at + head, stop)
        at = stop
    raise BadSample(f"damaged {kind}: more than {_MOST_BOXES:,} boxes")


def _properties_of(item: int, data: bytes, place: tuple[int, int]) -> list[int]:
    """Return the numbers of an item's properties, counted from 1."""
    # ipma: uint8 version | uint24 flags | uint32 count | for each item: uint16 or uint32 item | uint8 count | uint8 or uint16 each
    at, end = place
    version, wide = data[at], data[at + 3] & 1
    (count,) = struct.unpack_from(">I", data, at + 4)
    at += 8
    for _ in range(count):
        if at >= end:
            break
        size = 2 if version == 0 else 4
        number = int.from_bytes(data[at : at + size], "big")
        associations = data[at + size]
        at += size + 1
        step = 2 if wide else 1
        if number == item:
            mask = 0x7FFF if wide else 0x7F
            return [int.from_bytes(data[each : each + step], "big") & mask for each in range(at, at + step * associations, step)]
        at += step * associations
    return []
