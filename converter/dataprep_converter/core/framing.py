"""TFRecord framing: the 16 bytes around each record, which include masked CRC-32Cs. The framing is the same for all kinds of records.

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
"""The number of bytes before the data."""
FOOTER: Final = 4
"""The number of bytes after the data."""
MASK_DELTA: Final = 0xA282EAD8
"""TFRecord adds this number to a rotated CRC, because a plain CRC of data that contains CRCs is a weak checksum."""


def mask(crc: int) -> int:
    """Return the masked CRC, which the file stores instead of the CRC itself."""
    return ((crc >> 15 | crc << 17) + MASK_DELTA) & 0xFFFFFFFF


def mask_all(crcs: npt.NDArray[np.uint32]) -> npt.NDArray[np.uint32]:
    """Apply `mask` to each CRC, and return the results in a new array."""
    masked = (crcs >> np.uint32(15)) | (crcs << np.uint32(17))
    masked += np.uint32(MASK_DELTA)
    return masked


def header(length: int) -> bytes:
    """Return the 12 bytes that precede data of this length."""
    size = struct.pack("<Q", length)
    return size + struct.pack("<I", mask(crc32c(size)))


def frame(data: bytes) -> bytes:
    """Return one complete record."""
    return header(len(data)) + data + struct.pack("<I", mask(crc32c(data)))
