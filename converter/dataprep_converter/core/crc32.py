"""The CRC-32 of zip and gzip. ISA-L is ten times as fast as zlib, so ISA-L is used if it is installed."""

try:
    from isal.isal_zlib import crc32
except ModuleNotFoundError:  # there are no wheels for some processors
    from zlib import crc32

__all__ = ["crc32"]
