"""Writes a dict for each record with the TFRecordWriter of vahidk's `tfrecord`.

vahidk_records.py images|table INPUT OUTPUT RECORDS
"""

import itertools
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from clocked import clocked
from tfrecord.writer import TFRecordWriter

Datum = dict[str, tuple[Any, str]]


def images(source: Path) -> Iterator[Datum]:
    for number, folder in enumerate(sorted(source.iterdir())):
        for path in sorted(folder.iterdir()):
            yield {
                "image/encoded": (path.read_bytes(), "byte"),
                "image/class/label": (number, "int"),
                "image/class/text": (folder.name.encode(), "byte"),
            }


def table(columns: dict[str, list[Any]]) -> Iterator[Datum]:
    kinds = ["float" if name[0] == "x" else "int" for name in columns]
    for values in zip(*columns.values(), strict=True):
        yield dict(zip(columns, zip(values, kinds, strict=True), strict=True))


def main(kind: str, source: Path, output: Path, records: int) -> None:
    held = {} if kind == "images" else {name: column[:records].tolist() for name, column in np.load(source / "table.npz").items()}

    def work() -> int:
        count = 0
        writer = TFRecordWriter(str(output / "data.tfrecords"))
        for datum in itertools.islice(images(source) if kind == "images" else table(held), records):
            writer.write(datum)
            count += 1
        writer.close()
        return count

    clocked(work)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]), int(sys.argv[4]))
