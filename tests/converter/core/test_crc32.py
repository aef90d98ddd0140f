"""For data of any size, ISA-L's CRC-32 equals zlib's, and a checksum can be continued over further data."""

import zlib

import numpy as np
from isal import isal_zlib

from dataprep_converter.core.crc32 import crc32

SIZES = (0, 1, 7, 8, 15, 16, 17, 63, 64, 65, 255, 256, 1000, 65_537)


def test_it_is_the_one_of_isal() -> None:
    assert crc32 is isal_zlib.crc32


def test_the_check_value() -> None:
    assert crc32(b"123456789") == 0xCBF43926


def test_any_bytes_have_zlibs_sum() -> None:
    content = np.random.default_rng(5).integers(0, 256, max(SIZES) + 3, np.uint8)
    for size in SIZES:
        for start in range(3):
            piece = memoryview(content[start : start + size].data)
            assert crc32(piece) == zlib.crc32(piece)
            assert crc32(piece, 0xDEADBEEF) == zlib.crc32(piece, 0xDEADBEEF)
            assert crc32(piece[size // 3 :], crc32(piece[: size // 3])) == zlib.crc32(piece)
