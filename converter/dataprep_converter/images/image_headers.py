"""Parse the headers of image files without decoding them: the format, the height and width, and whether the file is complete.

Parsing takes about a microsecond per file. The format is detected from the content, never from the extension: a PNG named .jpg is a PNG.
"""

import struct
from dataclasses import dataclass
from typing import Final

from dataprep_converter.core.errors import BadSample
from dataprep_converter.images import heif_headers

MOST_PIXELS: Final = 1 << 29
"""The largest accepted number of pixels. No usual decoder accepts this many."""

_PNG = b"\x89PNG\r\n\x1a\n"
_PNG_END = b"IEND\xaeB\x60\x82"
_JPEG_FRAMES = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
_JPEG_ALONE = frozenset({0x01, *range(0xD0, 0xD8)})
_JPEG_MARKERS = 65_536
"""The largest accepted number of markers before the pixels. Cameras write far fewer markers, and each marker costs one loop iteration."""
_TIFF_WIDTH = 256
_TIFF_HEIGHT = 257
_TIFF_SIZES = {1: "B", 3: "H", 4: "I", 16: "Q"}


@dataclass(frozen=True)
class ImageHeader:
    """The format in lower case (`jpeg`, `png`, `gif`, `bmp`, `webp`, `tiff`, `avif`, `heic`) and the size in pixels."""

    format: str
    height: int
    width: int


def parse(data: bytes, *, heif: bool = True) -> ImageHeader:
    """Parse the header of a complete file. Raises BadSample, with the reason, if the data isn't a complete image.

    If `heif` is false, AVIF and HEIC files don't count as images. Version 1 of the part `heif` requires this (see `run_id.PARTS`).
    """
    if not data:
        raise BadSample("the file is empty")
    try:
        header = _parse_format(data, heif=heif)
    except (struct.error, IndexError, OverflowError) as exc:
        raise BadSample(f"truncated image: the header is incomplete in {len(data):,} bytes") from exc
    if header.height <= 0 or header.width <= 0:
        raise BadSample(f"the {header.format} image is {header.width} x {header.height} pixels")
    if header.height * header.width > MOST_PIXELS:
        raise BadSample(f"the {header.format} image claims {header.width:,} x {header.height:,} pixels, more than decoders accept")
    return header


def _parse_format(data: bytes, *, heif: bool) -> ImageHeader:
    if data.startswith(b"\xff\xd8\xff"):
        return _jpeg(data)
    if data.startswith(_PNG):
        return _png(data)
    if data.startswith((b"GIF87a", b"GIF89a")):
        width, height = struct.unpack_from("<HH", data, 6)
        return ImageHeader("gif", height, width)
    if data.startswith(b"RIFF") and data[8:12] == b"WEBP":
        return _webp(data)
    if data.startswith(b"BM"):
        return _bmp(data)
    if data.startswith((b"II*\0", b"MM\0*", b"II+\0", b"MM\0+")):
        return _tiff(data)
    kind = heif_headers.format_of(data) if heif else None
    if kind is not None:
        main = heif_headers.main_image(data, kind)
        return ImageHeader(kind, main.height, main.width)
    raise BadSample(f"not an image: it begins with {data[:8].hex(' ')}")


def _jpeg(data: bytes) -> ImageHeader:
    # A segment: ff marker | uint16 total length of this field and the content | content; big-endian. Fill bytes ff can precede a marker.
    size: tuple[int, int] | None = None
    at = 2
    for _ in range(_JPEG_MARKERS):
        if data[at] != 0xFF:
            raise BadSample(f"damaged jpeg: no marker at byte {at}")
        marker = data[at + 1]
        if marker == 0xFF:
            at += 1
            continue
        if marker in _JPEG_ALONE:
            at += 2
            continue
        if marker == 0xDA:
            break
        if marker == 0xD9:
            raise BadSample("damaged jpeg: it ends before its pixels")
        length = data[at + 2] << 8 | data[at + 3]
        if marker in _JPEG_FRAMES and size is None:
            height, width = struct.unpack_from(">HH", data, at + 5)
            size = (height, width)
        at += 2 + length
    else:
        raise BadSample(f"damaged jpeg: more than {_JPEG_MARKERS:,} markers before its pixels")
    if size is None:
        raise BadSample("damaged jpeg: it has no frame header")
    # Search for the end marker: pixel data can't contain it, because ff in pixel data is followed by 00 or a restart marker. Data can
    # follow the end marker.
    if data.rfind(b"\xff\xd9", at) < 0:
        raise BadSample(f"truncated jpeg: no end of image in {len(data):,} bytes")
    return ImageHeader("jpeg", *size)


def _png(data: bytes) -> ImageHeader:
    if data[12:16] != b"IHDR":
        raise BadSample("damaged png: it doesn't begin with IHDR")
    width, height = struct.unpack_from(">II", data, 16)
    if data.rfind(_PNG_END) < 0:
        raise BadSample(f"truncated png: no IEND in {len(data):,} bytes")
    return ImageHeader("png", height, width)


def _bmp(data: bytes) -> ImageHeader:
    (header,) = struct.unpack_from("<I", data, 14)
    if header == 12:
        width, height = struct.unpack_from("<HH", data, 18)
    else:
        # A negative height means that the image is stored from top to bottom.
        width, height = struct.unpack_from("<ii", data, 18)
    (pixels,) = struct.unpack_from("<I", data, 10)
    if pixels >= len(data):
        raise BadSample(f"truncated bmp: its pixels begin at byte {pixels:,} of {len(data):,}")
    return ImageHeader("bmp", abs(height), width)


def _webp(data: bytes) -> ImageHeader:
    (size,) = struct.unpack_from("<I", data, 4)
    if len(data) < size + 8:
        raise BadSample(f"truncated webp: {len(data):,} of {size + 8:,} bytes")
    chunk = data[12:16]
    if chunk == b"VP8 ":
        if data[23:26] != b"\x9d\x01\x2a":
            raise BadSample("damaged webp: no start code")
        width, height = struct.unpack_from("<HH", data, 26)
        return ImageHeader("webp", height & 0x3FFF, width & 0x3FFF)
    if chunk == b"VP8L":
        (bits,) = struct.unpack_from("<I", data, 21)
        return ImageHeader("webp", (bits >> 14 & 0x3FFF) + 1, (bits & 0x3FFF) + 1)
    if chunk == b"VP8X":
        low_w, high_w, low_h, high_h = struct.unpack_from("<HBHB", data, 24)
        return ImageHeader("webp", (low_h | high_h << 16) + 1, (low_w | high_w << 16) + 1)
    raise BadSample(f"damaged webp: unknown chunk {chunk!r}")


def _tiff(data: bytes) -> ImageHeader:
    order = "<" if data[0] == 0x49 else ">"
    if data[2:4] in (b"+\0", b"\0+"):
        (at,) = struct.unpack_from(f"{order}Q", data, 8)
        (count,) = struct.unpack_from(f"{order}Q", data, at)
        at, step, inline = at + 8, 20, 12
    else:
        (at,) = struct.unpack_from(f"{order}I", data, 4)
        (count,) = struct.unpack_from(f"{order}H", data, at)
        at, step, inline = at + 2, 12, 8
    sizes: dict[int, int] = {}
    for entry in range(at, at + min(count, 4096) * step, step):
        tag, kind = struct.unpack_from(f"{order}HH", data, entry)
        if tag in (_TIFF_WIDTH, _TIFF_HEIGHT) and kind in _TIFF_SIZES:
            (sizes[tag],) = struct.unpack_from(f"{order}{_TIFF_SIZES[kind]}", data, entry + inline)
    if len(sizes) < 2:
        raise BadSample("damaged tiff: its directory has no width and height")
    return ImageHeader("tiff", sizes[_TIFF_HEIGHT], sizes[_TIFF_WIDTH])
