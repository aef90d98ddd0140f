"""TFRecord framing: the 16 bytes around each record and their masked CRC-32C. The contents of records don't matter here.

# A record:  uint64 length | uint32 masked crc of length | bytes data | uint32 masked crc of data   (little-endian)
"""

import logging
import struct
from typing import Final

import numpy as np
import numpy.typing as npt
from crc32c import crc32c, hardware_based

if not hardware_based:
    logging.getLogger(__name__).warning("this processor has no CRC-32C instruction: framing will be several times slower")

HEADER: Final = 12
"""Bytes before the data."""
FOOTER: Final = 4
"""Bytes after the data."""
MASK_DELTA: Final = 0xA282EAD8
"""Added to a rotated CRC by TFRecord, so that CRCs of data containing CRCs stay good."""


def mask(crc: int) -> int:
    """The CRC as stored in the file."""
    return ((crc >> 15 | crc << 17) + MASK_DELTA) & 0xFFFFFFFF


def mask_all(crcs: npt.NDArray[np.uint32]) -> npt.NDArray[np.uint32]:
    """`mask` of each, in an array of its own."""
    masked = (crcs >> np.uint32(15)) | (crcs << np.uint32(17))
    masked += np.uint32(MASK_DELTA)
    return masked


def header(length: int) -> bytes:
    """The 12 bytes before data of this length."""
    size = struct.pack("<Q", length)
    return size + struct.pack("<I", mask(crc32c(size)))


def frame(data: bytes) -> bytes:
    """One whole record."""
    return header(len(data)) + data + struct.pack("<I", mask(crc32c(data)))
