"""Runs only the libraries that our code calls, and our resampling, in the given number of processes with one core each. This shows the gain
from a second core on this machine.

libraries.py pixels|pictures|rows INPUT OUTPUT RECORDS PROCESSES [BYTES_OF_A_RECORD]

`pixels` decodes JPEG files, crops or pads them, and converts them to float16 with a lookup table. `pictures` resizes JPEG files to a
shortest side of 256 and encodes them again. `rows` reads CSV with Arrow and writes the given number of bytes for each row. Each process
writes its output to a separate file and computes the file's digest.
"""

import hashlib
import io
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import simplejpeg
from clocked import clocked
from pyarrow import csv

from dataprep_converter.images import resampling

HEIGHT, WIDTH = 482, 415
_IN_CACHE = 256 << 10

Bytes = Any
"""Bytes, or an object that exposes a buffer."""


@dataclass(frozen=True)
class Part:
    """The work of one process."""

    number: int
    """The number of the part, which is also the number of the core that the process uses."""
    output: Path
    files: tuple[Path, ...]
    first: int = 0
    end: int = 0
    """`first` and `end` are the byte range of this part, if the processes share one file."""


def pixels(part: Part) -> Iterator[tuple[int, Bytes]]:
    """Yields (number of records, their bytes) of decoded pictures."""
    levels = pa.array(((np.arange(256) - 127.5) / 64).astype(np.float16))
    for path in part.files:
        picture = simplejpeg.decode_jpeg(path.read_bytes())
        kept = picture[:HEIGHT, max(0, picture.shape[1] - WIDTH) // 2 :][:, :WIDTH]
        canvas = np.zeros((HEIGHT, WIDTH, 3), np.uint8)
        canvas[: kept.shape[0], : kept.shape[1]] = kept
        places: Any = pa.array(canvas.reshape(-1))
        yield 1, pc.take(levels, places, boundscheck=False).buffers()[1]


def resized(content: bytes) -> bytes:
    """Returns the JPEG, resized to a shortest side of 256."""
    picture = simplejpeg.decode_jpeg(content)
    height, width = picture.shape[:2]
    scale = 256 / min(height, width)
    smaller = resampling.resized(picture, int(height * scale), int(width * scale), "Bilinear")
    encoded: bytes = simplejpeg.encode_jpeg(np.ascontiguousarray(smaller), quality=95, colorsubsampling="420")
    return encoded


def pictures(part: Part) -> Iterator[tuple[int, Bytes]]:
    """Yields (number of records, their bytes) of resized pictures."""
    for path in part.files:
        yield 1, resized(path.read_bytes())


def rows(part: Part, *, record_bytes: int) -> Iterator[tuple[int, Bytes]]:
    """Yields (number of records, bytes) for a part of a CSV file, with a total of `record_bytes` for each record."""
    piece = memoryview(bytes(range(256)) * (_IN_CACHE // 256))
    (path,) = part.files
    with path.open(newline="") as file:
        names = file.readline().strip().replace('"', "").split(",")
    with pa.memory_map(str(path)) as mapped:
        mapped.seek(part.first)
        lines: Any = pa.BufferReader(mapped.read_buffer(part.end - part.first))
        for batch in csv.open_csv(lines, csv.ReadOptions(use_threads=False, column_names=names)):
            yield batch.num_rows, b""
            size = batch.num_rows * record_bytes
            for first in range(0, size, _IN_CACHE):
                yield 0, piece[: size - first]


def write(records: Callable[[Part], Iterator[tuple[int, Bytes]]], part: Part) -> int:
    """Digests and writes the records, on one core. Returns their number."""
    cores = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {cores[part.number % len(cores)]})
    digest = hashlib.sha256()
    count = 0
    with (part.output / f"part-{part.number}").open("wb", buffering=0) as out:
        for some, content in records(part):
            digest.update(content)
            out.write(content)
            count += some
    return count


def shares(kind: str, source: Path, output: Path, processes: int) -> list[Part]:
    """Returns each process's part: a range of the files, or a range of lines in one file."""
    if kind != "rows":
        files = sorted(source.glob("*/*.jpg"))
        each = -(-len(files) // processes)
        return [Part(number, output, tuple(files[number * each : (number + 1) * each])) for number in range(processes)]
    table = source / "table.csv"
    with table.open("rb") as file:
        ends = [_end_of_line(file, place) for place in np.linspace(0, table.stat().st_size, processes + 1).astype(int).tolist()]
    return [Part(number, output, (table,), ends[number], ends[number + 1]) for number in range(processes)]


def _end_of_line(file: io.BufferedReader, place: int) -> int:
    file.seek(place)
    file.readline()
    return file.tell()


def main(kind: str, source: Path, output: Path, processes: int, record_bytes: int) -> None:
    makers: Mapping[str, Any] = {"pixels": pixels, "pictures": pictures, "rows": partial(rows, record_bytes=record_bytes)}
    work = partial(write, makers[kind])
    parts = shares(kind, source, output, processes)
    if processes == 1:
        clocked(lambda: work(parts[0]))
        return
    # The clock starts once all processes have imported their libraries.
    with ProcessPoolExecutor(processes, get_context("spawn")) as pool:
        list(pool.map(abs, range(processes), chunksize=1))
        clocked(lambda: sum(pool.map(work, parts)), waits=False)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]), int(sys.argv[5]), int(sys.argv[6]) if len(sys.argv) > 6 else 0)
