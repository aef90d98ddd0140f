"""The libraries that ours calls and its own resampling, and nothing around them, by so many processes with a core each: what a second core of this machine is worth.

libraries.py pixels|pictures|rows INPUT OUTPUT RECORDS PROCESSES [BYTES_OF_A_RECORD]

Pixels are JPEG files decoded, cropped or padded and looked up as float16, pictures are those with their shortest side at 256 and encoded again, rows are
read by Arrow and written as that number of bytes each. All are digested and written, by each process into a file of its own.
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
"""Bytes, or what has them."""


@dataclass(frozen=True)
class Part:
    """What one of the processes does."""

    number: int
    """Of its core, too."""
    output: Path
    files: tuple[Path, ...]
    first: int = 0
    end: int = 0
    """Of a file that processes share: the bytes that are this one's."""


def pixels(part: Part) -> Iterator[tuple[int, Bytes]]:
    """(records, their bytes) of decoded pictures."""
    levels = pa.array(((np.arange(256) - 127.5) / 64).astype(np.float16))
    for path in part.files:
        picture = simplejpeg.decode_jpeg(path.read_bytes())
        kept = picture[:HEIGHT, max(0, picture.shape[1] - WIDTH) // 2 :][:, :WIDTH]
        canvas = np.zeros((HEIGHT, WIDTH, 3), np.uint8)
        canvas[: kept.shape[0], : kept.shape[1]] = kept
        places: Any = pa.array(canvas.reshape(-1))
        yield 1, pc.take(levels, places, boundscheck=False).buffers()[1]


def resized(content: bytes) -> bytes:
    """A JPEG with its shortest side at 256."""
    picture = simplejpeg.decode_jpeg(content)
    height, width = picture.shape[:2]
    scale = 256 / min(height, width)
    smaller = resampling.resized(picture, int(height * scale), int(width * scale), "Bilinear")
    encoded: bytes = simplejpeg.encode_jpeg(np.ascontiguousarray(smaller), quality=95, colorsubsampling="420")
    return encoded


def pictures(part: Part) -> Iterator[tuple[int, Bytes]]:
    """(records, their bytes) of pictures that are smaller."""
    for path in part.files:
        yield 1, resized(path.read_bytes())


def rows(part: Part, *, record_bytes: int) -> Iterator[tuple[int, Bytes]]:
    """(records, as many bytes as they are to have) of a part of a CSV file."""
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
    """Digests and writes them, on one core."""
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
    """What each process does: files one after another, or lines of one."""
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
    # The clock begins when each has imported its libraries.
    with ProcessPoolExecutor(processes, get_context("spawn")) as pool:
        list(pool.map(abs, range(processes), chunksize=1))
        clocked(lambda: sum(pool.map(work, parts)), waits=False)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]), int(sys.argv[5]), int(sys.argv[6]) if len(sys.argv) > 6 else 0)
