"""Decodes image files that are damaged or have false headers.

Decoding must yield pixels or a reason, and use little memory. A PNG must yield the right pixels or none.
"""

import os
import struct
import tracemalloc
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest
from tests.builders.files import put
from tests.builders.images import images_source
from tests.converter.readers.reader_contract import batches, faults, rows
from tests.converter.transforms.image_batches import applied, drawn, file_of, files, pixels, reasons
from tests.fuzz.damage import damaged

from dataprep_converter.readers.images.images import ImagesReader

ROUNDS: Final = int(os.environ.get("FUZZ", "40"))
KINDS: Final = ("JPEG", "PNG", "GIF", "BMP", "TIFF", "WEBP")
DECODE: Final[Sequence[Mapping[str, Any]]] = ({"decode": {}}, {"cropOrPad": {"height": 40, "width": 50}})
"""The second step requests the pixels, because after `decode` alone the images are still encoded."""
_END: Final = bytes.fromhex("0000000049454e44ae426082")
HUGE: Final = {
    "png": b"\x89PNG\r\n\x1a\n" + struct.pack(">I4sIIBBBBB", 13, b"IHDR", 2**31 - 1, 2**31 - 1, 8, 2, 0, 0, 0) + bytes(4) + _END,
    "jpeg": b"\xff\xd8\xff\xc0" + struct.pack(">HBHHB", 17, 8, 65535, 65535, 3) + bytes.fromhex("011100021100031100ffda000c03010002000300003f00") + bytes(40) + b"\xff\xd9",
    "gif": b"GIF89a" + struct.pack("<HHBBB", 65535, 65535, 0, 0, 0) + bytes(40),
    "bmp": b"BM" + struct.pack("<IHHIIiiHH", 94, 0, 0, 54, 40, 2**31 - 1, 2**31 - 1, 1, 24) + bytes(64),
    "webp": b"RIFF" + struct.pack("<I4s4sI", 62, b"WEBP", b"VP8X", 10) + bytes(4) + b"\xff" * 6 + bytes(40),
    "tiff": b"II*\0" + struct.pack("<IH", 8, 2) + struct.pack("<HHII", 256, 4, 1, 2**32 - 1) + struct.pack("<HHII", 257, 4, 1, 2**32 - 1) + bytes(40),
}  # fmt: skip
"""Files of a few dozen bytes whose headers announce billions of pixels."""


@pytest.mark.timeout(60 + ROUNDS)
@pytest.mark.parametrize("kind", KINDS)
def test_a_damaged_image_is_pixels_or_a_reason(kind: str) -> None:
    whole = file_of(drawn(40, 50), kind)
    rng = np.random.default_rng(zlib.crc32(kind.encode()))
    bad = 0
    for _ in range(ROUNDS):
        # A warning of Pillow would make this test fail. On a cluster, it would only be a line in the log.
        found = applied(files(damaged(whole, rng)), *DECODE)
        assert found.records.num_rows + len(found.bad) == 1
        assert all(reasons(found))
        bad += len(found.bad)
    assert bad


@pytest.mark.parametrize("place", ["first", "middle", "last"])
def test_a_flipped_bit_in_the_data_of_a_png_never_changes_a_pixel(place: str) -> None:
    whole = file_of(drawn(40, 50), "PNG")
    right = pixels(applied(files(whole), *DECODE))
    first, length = _idat(whole)
    at = {"first": first, "middle": first + length // 2, "last": first + length - 1}[place]
    for bit in range(8):
        flipped = bytearray(whole)
        flipped[at] ^= 1 << bit
        found = applied(files(bytes(flipped)), *DECODE)
        assert found.bad or np.array_equal(pixels(found), right)


@pytest.mark.parametrize("name", HUGE)
def test_a_header_of_billions_of_pixels_is_refused_with_little_memory(name: str, tmp_path: Path) -> None:
    put(tmp_path, {f"class/a.{name}": HUGE[name]})
    tracemalloc.start()
    try:
        found = batches(ImagesReader, images_source(tmp_path, extensions=[name]))
        decoded = applied(files(HUGE[name]), *DECODE)
        assert tracemalloc.get_traced_memory()[1] < 8 << 20
    finally:
        tracemalloc.stop()
    assert not rows(found)
    assert "pixels" in faults(found)[0]
    assert decoded.bad


def _idat(data: bytes) -> tuple[int, int]:
    """Offset and length of the first IDAT chunk."""
    at = data.index(b"IDAT")
    return at + 4, int(struct.unpack(">I", data[at - 4 : at])[0])
