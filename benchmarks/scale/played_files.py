"""Simulated input files. Their names, sizes, pins and contents are computed when they are requested, so a folder can have any number of
files."""

import csv
import io
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from PIL import Image

from dataprep_converter.sampling.selection import mix
from dataprep_converter.stores import Entry

INPUT: Final = "played://in"
"""The URI of the folder with the input files."""
_FOLDERS: Final = 1000
_BLOCK: Final = 1024
_PIN_DIGITS: Final = 32


@dataclass(frozen=True)
class Content:
    """The content that all files of a folder share: `head` once, followed by repetitions of `filler`."""

    head: bytes
    filler: bytes

    def read(self, offset: int, length: int) -> bytes:
        """Returns `length` bytes from `offset`."""
        head = self.head[offset : offset + length]
        missing = length - len(head)
        if not missing:
            return head
        start = max(0, offset - len(self.head)) % len(self.filler)
        repeats = -(-(start + missing) // len(self.filler))
        return head + (self.filler * repeats)[start : start + missing]


@dataclass(frozen=True)
class PlayedFiles:
    """Files with equal contents, in up to a thousand folders. Each file has a different pin, which is as long and as random as an MD5."""

    count: int
    ending: str
    content: Content
    size: int
    """The size of the smallest file in bytes."""
    spread: int = 1
    """The number of different sizes."""

    def entries(self) -> Iterator[Entry]:
        """Yields all files in the order of their names."""
        for first in range(0, self.count, self._in_folder):
            yield from self._entries(first, min(first + self._in_folder, self.count))

    def entry(self, uri: str) -> Entry | None:
        """Returns one file, or None if there is no such file."""
        digits = uri.rpartition("/")[2].removesuffix(f".{self.ending}")
        if not digits.isdigit() or int(digits) >= self.count or self._uri(int(digits)) != uri:
            return None
        return next(self._entries(int(digits), int(digits) + 1))

    def read(self, uri: str, offset: int, length: int) -> bytes:  # noqa: ARG002 - all files have the same content
        """Returns bytes of a file."""
        return self.content.read(offset, length)

    @property
    def _in_folder(self) -> int:
        return max(1, -(-self.count // _FOLDERS))

    def _uri(self, number: int) -> str:
        return f"{INPUT}/{number // self._in_folder:04d}/{number:09d}.{self.ending}"

    def _entries(self, first: int, end: int) -> Iterator[Entry]:
        folder = self._uri(first).rpartition("/")[0]
        for start in range(first, end, _BLOCK):
            numbers = range(start, min(start + _BLOCK, end))
            for number, pin in zip(numbers, pins(numbers), strict=True):
                yield Entry(f"{folder}/{number:09d}.{self.ending}", self.size + number * 7919 % self.spread, pin)


def pins(numbers: range) -> list[str]:
    """Returns the pins of the files with these numbers. Each pin is as long and as random as an MD5."""
    seeds = np.arange(2 * numbers.start, 2 * numbers.stop, dtype=np.uint64)
    digits = mix(seeds + np.uint64(1)).tobytes().hex()
    return [digits[place : place + _PIN_DIGITS] for place in range(0, len(digits), _PIN_DIGITS)]


# --- the kinds of files -----------------------------------------------------------------------------------------------


def images(count: int) -> PlayedFiles:
    """Returns JPEG files of 100 to 120 kB."""
    return PlayedFiles(count, "jpg", Content(_jpeg(), bytes(1024)), size=100_000, spread=20_000)


def parquet(count: int) -> PlayedFiles:
    """Returns small Parquet files with 20 columns and four row groups. Their footers are as large as those of large files."""
    return _parquet_files(count, rows=400)


def tables(count: int) -> PlayedFiles:
    """Returns Parquet files of 32 MiB with 20 columns and four row groups."""
    return _parquet_files(count, rows=200_000)


def csv_files(count: int) -> PlayedFiles:
    """Returns CSV files of 64 MiB with 20 columns of numbers."""
    head, rows = _csv()
    return PlayedFiles(count, "csv", Content(head, rows), size=len(head) + (64 << 20) // len(rows) * len(rows))


KINDS: Final[Mapping[str, tuple[Callable[[int], PlayedFiles], dict[str, Any]]]] = {
    "images": (images, {"images": {"uris": [INPUT]}}),
    "parquet": (parquet, {"parquet": {"uris": [INPUT]}}),
    "tables": (tables, {"parquet": {"uris": [INPUT]}}),
    "csv": (csv_files, {"csv": {"uris": [INPUT], "header": True}}),
}
"""Maps a kind of files to the function that makes them, and to the source that reads them."""


def _jpeg() -> bytes:
    file = io.BytesIO()
    Image.new("RGB", (500, 375)).save(file, "JPEG")
    return file.getvalue()


def _parquet_files(count: int, *, rows: int) -> PlayedFiles:
    rng = np.random.default_rng(1)
    file = io.BytesIO()
    arrow: Any = pa  # the stubs don't support numpy's types
    pq.write_table(arrow.table({f"column_{number}": rng.random(rows) for number in range(20)}), file, row_group_size=rows // 4)
    content = file.getvalue()
    return PlayedFiles(count, "parquet", Content(content, b"\0"), size=len(content))


def _csv() -> tuple[bytes, bytes]:
    """Returns the header and about 1 MiB of rows."""
    rng = np.random.default_rng(1)
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([f"column_{number}" for number in range(20)])
    head = text.tell()
    writer.writerows(rng.random((6000, 20)).round(6).tolist())
    content = text.getvalue().encode()
    return content[:head], content[head:]
