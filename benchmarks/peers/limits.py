"""What no converter can be quicker than: the bytes moved, summed or decoded, and nothing else.

limits.py cat|read|write|digest|sum|gather|sha256|sha256-by-one|crc|inflate|decode|recode|compute INPUT OUTPUT RECORDS [BYTES_OF_A_RECORD]
"""

import hashlib
import subprocess
import sys
import zlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from pathlib import Path

import computing
from clocked import clocked

_PIECE = 1 << 20
_IN_CACHE = 256 << 10
_GATHERED = 256
"""Rows whose bytes stay in the cache while they are digested and written."""


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


def digest(size: int, output: Path, records: int) -> int:
    """This many bytes, digested and written by one core that finds them in its cache: what has a digest can't be written sooner."""
    piece = bytes(range(256)) * (_IN_CACHE // 256)
    found = hashlib.sha256()
    with (output / "all").open("wb", buffering=0) as out:
        for first in range(0, size, _IN_CACHE):
            some = piece[: size - first]
            found.update(some)
            out.write(some)
    return records


def sum_and_write(content: memoryview, output: Path, records: int) -> int:
    """Bytes in memory with a CRC-32, as a zip has it, by one core; records are as many as that is for others."""
    from isal import isal_zlib

    crc = 0
    with (output / "all").open("wb", buffering=0) as out:
        for first in range(0, len(content), _PIECE):
            some = content[first : first + _PIECE]
            crc = isal_zlib.crc32(some, crc)
            out.write(some)
    return records


def gather(images: Path, output: Path, records: int, record_bytes: int) -> int:
    """Rows of a file in memory in random order, digested and written by one core; what a record has beside its row comes from the cache."""
    import numpy as np

    rows = np.fromfile(images, np.uint8)[16:].reshape(records, -1)
    order = np.random.default_rng(1).permutation(records)
    found = hashlib.sha256()
    piece = bytes(_GATHERED * (record_bytes - rows.shape[1]))
    with (output / "all").open("wb", buffering=0) as out:
        for first in range(0, records, _GATHERED):
            some = rows[order[first : first + _GATHERED]]
            for content in (some.data, piece[: len(some) * (record_bytes - rows.shape[1])]):
                found.update(content)
                out.write(content)
    return records


def sha256(contents: list[bytes], records: int) -> int:
    """SHA-256 of each file in memory, by two threads; records are as many as that is for others."""
    _by_two_threads(lambda content: hashlib.sha256(content).digest(), contents)
    return records


def sha256_by_one(contents: list[bytes], records: int) -> int:
    """The same, by one thread."""
    for content in contents:
        hashlib.sha256(content)
    return records


def crc(contents: list[bytes], records: int) -> int:
    """CRC-32C of each file in memory; records are as many as that is for others."""
    from crc32c import crc32c

    for content in contents:
        crc32c(content)
    return records


def decode(contents: list[bytes], records: int) -> int:
    """Each JPEG in memory to pixels, by two threads."""
    import simplejpeg

    _by_two_threads(lambda content: simplejpeg.decode_jpeg(content).shape, contents)
    return records


def recode(contents: list[bytes], records: int) -> int:
    """Each JPEG in memory to pixels, its shortest side to 256, and back, by two threads: the libraries that ours calls."""
    from libraries import resized

    _by_two_threads(resized, contents)
    return records


def _by_two_threads(work: Callable[[bytes], object], contents: list[bytes]) -> None:
    with ThreadPoolExecutor(2) as threads:
        for _ in threads.map(work, contents):
            pass


NEEDS = {"sum": "isal.isal_zlib", "gather": "numpy", "crc": "crc32c", "decode": "simplejpeg", "recode": "libraries"}
"""Libraries, by kind."""

IN_MEMORY = {"sha256": sha256, "sha256-by-one": sha256_by_one, "crc": crc, "decode": decode, "recode": recode}
"""Those that find the files of the input in memory when their clock begins."""


def inflate(found: list[Path], records: int) -> int:
    """gzip files inflated and dropped; records are as many as that is for others."""
    for path in found:
        inflater = zlib.decompressobj(wbits=31)
        with path.open("rb", buffering=0) as source:
            while piece := source.read(_PIECE):
                inflater.decompress(piece)
    return records


def compute(records: int) -> int:
    """So many computations, one after another, for which nothing has to be read."""
    for _ in range(records):
        computing.slowly({})
    return records


def main(kind: str, source: Path, output: Path, records: int, record_bytes: int | None) -> None:
    # The others need none of these, which are larger than they are; no clock has begun.
    if kind in NEEDS:
        import_module(NEEDS[kind])
    found = files(source)
    size = sum(path.stat().st_size for path in found) if record_bytes is None else records * record_bytes

    if kind == "cat":
        clocked(lambda: cat(found, output))
    elif kind == "read":
        clocked(lambda: read(found, records))
    elif kind == "write":
        clocked(lambda: write(size, output, records))
    elif kind == "digest":
        clocked(lambda: digest(size, output, records))
    elif kind == "sum":
        content = memoryview(bytes(range(256)) * (size // 256))
        clocked(lambda: sum_and_write(content, output, records))
    elif kind == "gather":
        clocked(lambda: gather(source / "images.idx", output, records, size // records))
    elif kind == "inflate":
        clocked(lambda: inflate(found, records))
    elif kind in IN_MEMORY:
        held = [path.read_bytes() for path in found]
        clocked(lambda: IN_MEMORY[kind](held, records))
    elif kind == "compute":
        clocked(lambda: compute(records))
    else:
        sys.exit(f"No limit named {kind!r}.")


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]), int(sys.argv[4]), int(sys.argv[5]) if len(sys.argv) > 5 else None)
