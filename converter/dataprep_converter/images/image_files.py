"""Decode image files to pixels, and encode pixels to image files.

JPEG is handled by libjpeg-turbo (simplejpeg), and all other formats by Pillow. HEIC also needs pillow-heif. The libraries are imported only
when a step needs them. If TensorFlow can decode a file, this module returns the same pixels as TensorFlow's
`decode_jpeg(dct_method="INTEGER_ACCURATE")`, `decode_png` and `decode_bmp`.
"""

import contextlib
import ctypes
import io
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, Final

import numpy as np

from dataprep_api.spec.transforms.images import Decode, Encode
from dataprep_converter.core.errors import BadSample, BadSpec
from dataprep_converter.images import image_headers, orientation
from dataprep_converter.images.orientation import Pixels
from dataprep_converter.images.resampling import MODES, to_picture

_JPEG_COLOURS: Final[Mapping[int, str]] = {1: "GRAY", 3: "RGB", 4: "RGBA"}
_INKS: Final = frozenset({"CMYK", "YCCK"})
_ADOBE: Final = b"\xff\xee\x00\x0eAdobe"
_MARKER: Final = 0xFF
_SCAN: Final = 0xDA
"""The second byte of the marker that begins a scan."""
_SCALES: Final = (8, 4, 2)
"""The scaling denominators for which libjpeg-turbo has SIMD code."""
_TURNED: Final = frozenset({"tiff", "heic"})
"""Formats whose orientation Pillow applies itself."""
_LARGE_PIXELS: Final = 16 << 20
"""Images with more pixels than this are copied from Pillow in strips of a few rows.

For images that fit into the CPU cache, strips would be a little slower.
"""
_STRIP_PIXELS: Final = 1 << 20
_MOST_SCANS: Final = 500
"""The largest accepted number of scans in a JPEG.

Each scan of a progressive JPEG covers the complete image, so a small file could take hours to decode.
"""


@dataclass(frozen=True)
class Header:
    """The header of an image file, and its orientation."""

    format: str
    height: int
    width: int
    """The stored width, before any rotation."""
    orientation: int
    """The stored EXIF orientation, 1 to 8."""
    upright: bool
    """Whether the orientation is applied when the image is decoded."""

    @property
    def size(self) -> tuple[int, int]:
        """The (height, width) of the decoded pixels."""
        swapped = self.upright and orientation.swaps_sides(self.orientation)
        return (self.width, self.height) if swapped else (self.height, self.width)


def require_libraries(purpose: str) -> None:
    """Raise BadSpec if a library for decoding is missing. The error's message begins with `purpose`, such as `The transform resize`."""
    for name in ("simplejpeg", "PIL.Image"):
        try:
            import_module(name)
        except ModuleNotFoundError as exc:
            raise BadSpec(f"{purpose} needs {exc.name}: pip install 'dataprep-operator[images]'.") from exc


def header(data: bytes, decode: Decode, *, heif: bool = True) -> Header:
    """Return the header of a complete file. If `heif` is false, AVIF and HEIC files don't count as images.

    Raises BadSample if the data isn't an image, is incomplete, or has more pixels than `maxPixels`.
    """
    image_header = image_headers.parse(data, heif=heif)
    if image_header.height * image_header.width > decode.max_pixels:
        raise BadSample(
            f"the {image_header.format} image is {image_header.width:,} x {image_header.height:,} pixels, more than the {decode.max_pixels:,} of decode.maxPixels"
        )
    return Header(
        image_header.format, image_header.height, image_header.width, orientation.of(data, image_header.format), decode.apply_orientation
    )


def decoded(data: bytes, head: Header, decode: Decode, *, at_least: tuple[int, int] | None = None) -> Pixels:
    """Decode a file to pixels uint8[height, width, channels].

    Raises BadSample with the decoder's reason. `at_least` is a (height, width): if a JPEG is still at least this large at 1/8, 1/4 or 1/2
    of its size, it is decoded at that size.
    """
    if head.format == "jpeg":
        image = _jpeg(data, head, decode.channels, at_least)
        return orientation.turned(image, head.orientation) if head.upright else image
    image = _pillow(data, head, decode)
    if head.format in _TURNED:
        return image if head.upright else orientation.turned_back(image, head.orientation)
    return orientation.turned(image, head.orientation) if head.upright else image


def encoded(image: Pixels, encode: Encode) -> bytes:
    """Encode pixels uint8[height, width, channels] to a JPEG or PNG file. Raises BadSample if the format doesn't support the size."""
    if encode.format == "Png":
        file = io.BytesIO()
        to_picture(image).save(file, "PNG")
        return file.getvalue()
    grey = image.shape[2] == 1
    simplejpeg: Any = import_module("simplejpeg")
    try:
        data: bytes = simplejpeg.encode_jpeg(
            np.ascontiguousarray(image),
            quality=encode.quality,
            colorspace="GRAY" if grey else "RGB",
            colorsubsampling="Gray" if grey else encode.subsampling,
            fastdct=False,
        )
    except ValueError as exc:
        raise BadSample(f"can't encode {image.shape[1]} x {image.shape[0]} pixels as jpeg: {exc}") from exc
    return data


# --- jpeg ---------------------------------------------------------------------------------------------------------


def _jpeg(data: bytes, head: Header, channels: int, at_least: tuple[int, int] | None) -> Pixels:
    simplejpeg: Any = import_module("simplejpeg")
    scans = _scans(data)
    if scans > _MOST_SCANS:
        raise BadSample(f"damaged jpeg: {scans:,} scans, more than {_MOST_SCANS}")
    scale = _scale(head, at_least)
    smallest = {"min_height": -(-head.height // scale), "min_width": -(-head.width // scale)}
    try:
        height, width, space, _ = simplejpeg.decode_jpeg_header(data)
        _check_size("jpeg", head.height, head.width, height, width)
        colour = "CMYK" if space in _INKS else _JPEG_COLOURS[channels]
        # With strict=False, the library would fill missing parts with grey and only warn.
        image: Pixels = simplejpeg.decode_jpeg(data, colour, fastdct=False, fastupsample=False, strict=True, **smallest)
    except ValueError as exc:
        raise BadSample(f"damaged jpeg: {_one_line(exc)}") from exc
    return _from_inks(image, data, channels) if colour == "CMYK" else image


def _scans(data: bytes) -> int:
    """Count the occurrences of the two bytes that begin a scan. `data.count` would take four times as long."""
    octets = np.frombuffer(data, np.uint8)
    return int(np.count_nonzero((octets[:-1] == _MARKER) & (octets[1:] == _SCAN)))


def _scale(head: Header, at_least: tuple[int, int] | None) -> int:
    """Return the largest scaling denominator that keeps both sides of the image at least as long as required."""
    if at_least is None:
        return 1
    swapped = head.size != (head.height, head.width)
    height, width = reversed(at_least) if swapped else at_least
    return next((scale for scale in _SCALES if -(-head.height // scale) >= height and -(-head.width // scale) >= width), 1)


def _from_inks(image: Pixels, data: bytes, channels: int) -> Pixels:
    """Convert CMYK to pixels as TensorFlow does. Adobe's files store inverted ink values."""
    wide = image.astype(np.uint16)
    if _ADOBE not in data:
        wide = 255 - wide
    rgb = (wide[:, :, :3] * wide[:, :, 3:] // 255).astype(np.uint8)
    return _from_picture(to_picture(rgb), channels)


# --- everything else ----------------------------------------------------------------------------------------------


def _pillow(data: bytes, head: Header, decode: Decode) -> Pixels:
    image_module: Any = import_module("PIL.Image")
    try:
        # Pillow's warnings can be ignored, because Pillow raises an exception for a real error.
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            if head.format == "tiff":
                _quiet_libtiff()
            with image_module.open(io.BytesIO(data), formats=[_plugin(head.format)]) as picture:
                turned = head.format in _TURNED and orientation.swaps_sides(head.orientation)
                expected = (head.width, head.height) if turned else (head.height, head.width)
                _check_size(head.format, *expected, picture.height, picture.width)
                picture.load()
                return _convert_by_strips(picture, decode)
    except (BadSample, MemoryError):
        raise
    except Exception as exc:
        # Pillow's plug-ins raise any kind of exception on damaged data: OSError, SyntaxError, KeyError, zlib.error …
        raise BadSample(f"damaged {head.format}: {_one_line(exc)}") from exc


@cache
def _plugin(kind: str) -> str:
    """Return the name of the Pillow plug-in that decodes a format.

    If the plug-in is missing, raises BadSample, which says what to install.
    """
    if kind == "avif":
        features: Any = import_module("PIL.features")
        if not features.check("avif"):
            raise BadSample("it is an avif file, and this Pillow was built without AVIF: install Pillow's own wheel")
    if kind != "heic":
        return kind.upper()
    try:
        pillow_heif: Any = import_module("pillow_heif")
    except ModuleNotFoundError as exc:
        raise BadSample("it is a heic file, which needs pillow-heif: pip install 'dataprep-operator[heic]'") from exc
    pillow_heif.register_heif_opener()
    return "HEIF"


@cache
def _quiet_libtiff() -> None:
    """Disable libtiff's default error handler, which writes to stderr and which Pillow doesn't replace.

    Pillow gets the errors even without this handler.
    """
    maps = Path("/proc/self/maps")
    lines = maps.read_text().splitlines() if maps.exists() else []
    for path in {line[line.index("/") :] for line in lines if "/libtiff" in line}:
        # Ignore errors: if libtiff's handler stays enabled, the only harm is extra lines on stderr.
        with contextlib.suppress(OSError, AttributeError):
            library = ctypes.CDLL(path)
            library.TIFFSetErrorHandler(None)
            library.TIFFSetWarningHandler(None)


def _convert_by_strips(picture: Any, decode: Decode) -> Pixels:
    """Convert a Pillow image to pixels.

    A large image is converted a few rows at a time. Converting all rows at once would need twice as much memory.
    """
    if picture.width * picture.height <= _LARGE_PIXELS:
        return _from_strip(picture, decode)
    rows = max(1, min(picture.height, _STRIP_PIXELS // picture.width))
    first = _from_strip(picture.crop((0, 0, picture.width, rows)), decode)
    pixels = np.empty((picture.height, *first.shape[1:]), np.uint8)
    pixels[:rows] = first
    for top in range(rows, picture.height, rows):
        bottom = min(picture.height, top + rows)
        pixels[top:bottom] = _from_strip(picture.crop((0, top, picture.width, bottom)), decode)
    return pixels


def _from_strip(picture: Any, decode: Decode) -> Pixels:
    if decode.palette_indexes and picture.mode == "P":
        return np.asarray(picture, np.uint8)[:, :, None]
    return _from_picture(picture, decode.channels)


def _from_picture(picture: Any, channels: int) -> Pixels:
    """Convert a Pillow image to pixels. As in TensorFlow, only the upper 8 bits of 16-bit values are used."""
    if picture.mode.startswith("I;16"):
        grey = (np.asarray(picture) >> 8).astype(np.uint8)
        picture = to_picture(grey[:, :, None])
    elif picture.mode in ("I", "F"):
        raise BadSample("it has 32-bit pixels, whose range isn't known")
    if picture.mode != MODES[channels]:
        picture = picture.convert(MODES[channels])
    return np.asarray(picture, np.uint8).reshape(picture.height, picture.width, channels)


def _check_size(kind: str, height: int, width: int, found_height: int, found_width: int) -> None:
    if (found_height, found_width) != (height, width):
        raise BadSample(f"damaged {kind}: its header says {width} x {height} pixels, but it decodes to {found_width} x {found_height}")


def _one_line(exc: Exception) -> str:
    return " ".join(str(exc).split()) or type(exc).__name__
