"""CRC-32 as zip and gzip have it: by ISA-L, which takes a tenth of zlib's time, where that is installed."""

try:
    from isal.isal_zlib import crc32
except ModuleNotFoundError:  # processors for which there is no wheel
    from zlib import crc32

__all__ = ["crc32"]
