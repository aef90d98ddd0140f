"""The CRC-32 of zip and gzip. If ISA-L is installed, it computes the CRC in a tenth of zlib's time."""

try:
    from isal.isal_zlib import crc32
except ModuleNotFoundError:  # there are no wheels for some processors
    from zlib import crc32

__all__ = ["crc32"]
