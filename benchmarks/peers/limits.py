"""The limits. Each does only one part of a conversion, such as copying, digesting or decoding, so no converter can be faster.

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
"""The number of rows that are digested and written at once. It is so small that the rows' bytes stay in the cache."""


def files(folder: Path) -> list[Path]:
    """Returns all files of the input, in order."""
    return sorted(path for path in folder.rglob("*") if path.is_file())


def cat(found: list[Path], output: Path) -> int:
    """Runs `cat FILES > one file`."""
    names = "\0".join(map(str, found)).encode() + b"\0"
    with (output / "all").open("wb") as out:
        subprocess.run(["xargs", "-0", "cat"], input=names, stdout=out, check=True)  # noqa: S607
    return len(found)


def read(found: list[Path], records: int) -> int:
    """Reads every byte into one buffer. Returns `records`: the number of records that other contenders convert from these bytes."""
    buffer = bytearray(_PIECE)
    for path in found:
        with path.open("rb", buffering=0) as source:
            while source.readinto(buffer):
                pass
    return records


def write(size: int, output: Path, records: int) -> int:
    """Writes `size` bytes from memory. Returns `records`."""
    piece = bytes(range(256)) * (_PIECE // 256)
    with (output / "all").open("wb", buffering=0) as out:
        for first in range(0, size, _PIECE):
            out.write(piece[: size - first])
    return records


def digest(size: int, output: Path, records: int) -> int:
    """Digests and writes `size` bytes from the cache of one core. No program that digests its output can be faster. Returns `records`."""
    piece = bytes(range(256)) * (_IN_CACHE // 256)
    found = hashlib.sha256()
    with (output / "all").open("wb", buffering=0) as out:
        for first in range(0, size, _IN_CACHE):
            some = piece[: size - first]
            found.update(some)
            out.write(some)
    return records


def sum_and_write(content: memoryview, output: Path, records: int) -> int:
    """Writes bytes from memory and computes their CRC-32, as a zip file requires, on one core. Returns `records`."""
    from isal import isal_zlib

    crc = 0
    with (output / "all").open("wb", buffering=0) as out:
        for first in range(0, len(content), _PIECE):
            some = content[first : first + _PIECE]
            crc = isal_zlib.crc32(some, crc)
            out.write(some)
    return records


def gather(images: Path, output: Path, records: int, record_bytes: int) -> int:
    """Digests and writes the rows of a file in memory, in random order, on one core. The other bytes of each record come from the cache."""
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
    """Computes the SHA-256 of each file in memory, in two threads. Returns `records`."""
    _by_two_threads(lambda content: hashlib.sha256(content).digest(), contents)
    return records


def sha256_by_one(contents: list[bytes], records: int) -> int:
    """Computes the SHA-256 of each file in memory, in one thread. Returns `records`."""
    for content in contents:
        hashlib.sha256(content)
    return records


def crc(contents: list[bytes], records: int) -> int:
    """Computes the CRC-32C of each file in memory. Returns `records`."""
    from crc32c import crc32c

    for content in contents:
        crc32c(content)
    return records


def decode(contents: list[bytes], records: int) -> int:
    """Decodes each JPEG in memory, in two threads. Returns `records`."""
    import simplejpeg

    _by_two_threads(lambda content: simplejpeg.decode_jpeg(content).shape, contents)
    return records


def recode(contents: list[bytes], records: int) -> int:
    """Decodes each JPEG in memory, resizes it to a shortest side of 256 and encodes it again, in two threads. Uses the libraries that our
    code calls."""
    from libraries import resized

    _by_two_threads(resized, contents)
    return records


def _by_two_threads(work: Callable[[bytes], object], contents: list[bytes]) -> None:
    with ThreadPoolExecutor(2) as threads:
        for _ in threads.map(work, contents):
            pass


NEEDS = {"sum": "isal.isal_zlib", "gather": "numpy", "crc": "crc32c", "decode": "simplejpeg", "recode": "libraries"}
"""Maps a kind to the library that it needs."""

IN_MEMORY = {"sha256": sha256, "sha256-by-one": sha256_by_one, "crc": crc, "decode": decode, "recode": recode}
"""The limits whose input files are already in memory when the clock starts."""


def inflate(found: list[Path], records: int) -> int:
    """Inflates gzip files and discards the bytes. Returns `records`."""
    for path in found:
        inflater = zlib.decompressobj(wbits=31)
        with path.open("rb", buffering=0) as source:
            while piece := source.read(_PIECE):
                inflater.decompress(piece)
    return records


def compute(records: int) -> int:
    """Runs `records` computations one after another, without reading any input."""
    for _ in range(records):
        computing.slowly({})
    return records


def main(kind: str, source: Path, output: Path, records: int, record_bytes: int | None) -> None:
    # Imports only the library that this kind needs, before the clock starts. The libraries take more memory than the measured work.
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
