"""What no converter can be quicker than: the bytes moved, summed or decoded, and nothing else.

limits.py cat|read|write|crc|decode INPUT OUTPUT RECORDS
"""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from clocked import clocked

_PIECE = 1 << 20


def files(folder: Path) -> list[Path]:
    """All files of the input, in order."""
    return sorted(path for path in folder.rglob("*") if path.is_file())


def cat(found: list[Path], output: Path) -> int:
    """`cat FILES > one file`."""
    names = "\0".join(map(str, found)).encode() + b"\0"
    with (output / "all").open("wb") as out:
        subprocess.run(["xargs", "-0", "cat"], input=names, stdout=out, check=True)  # noqa: S607
    return len(found)


def read(found: list[Path], records: int) -> int:
    """Every byte read into one buffer; records are as many as that is for others."""
    buffer = bytearray(_PIECE)
    for path in found:
        with path.open("rb", buffering=0) as source:
            while source.readinto(buffer):
                pass
    return records


def write(size: int, output: Path, records: int) -> int:
    """As many bytes as the input has, from memory; records are as many as that is for others."""
    piece = bytes(range(256)) * (_PIECE // 256)
    with (output / "all").open("wb", buffering=0) as out:
        for first in range(0, size, _PIECE):
            out.write(piece[: size - first])
    return records


def crc(contents: list[bytes], records: int) -> int:
    """CRC-32C of each file in memory; records are as many as that is for others."""
    from crc32c import crc32c

    for content in contents:
        crc32c(content)
    return records


def decode(contents: list[bytes]) -> int:
    """Each JPEG in memory to pixels."""
    import simplejpeg

    for content in contents:
        simplejpeg.decode_jpeg(content)
    return len(contents)


def main(kind: str, source: Path, output: Path, records: int) -> None:
    found = files(source)

    def contents() -> Iterator[bytes]:
        return (path.read_bytes() for path in found)

    if kind == "cat":
        clocked(lambda: cat(found, output))
    elif kind == "read":
        clocked(lambda: read(found, records))
    elif kind == "write":
        size = sum(path.stat().st_size for path in found)
        clocked(lambda: write(size, output, records))
    elif kind == "crc":
        held = list(contents())
        clocked(lambda: crc(held, records))
    elif kind == "decode":
        held = list(contents())
        clocked(lambda: decode(held))
    else:
        sys.exit(f"No limit named {kind!r}.")


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]), int(sys.argv[4]))
