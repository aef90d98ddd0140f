"""Writes a dict for each sample with webdataset's TarWriter.

webdataset_tar.py images|samples INPUT OUTPUT RECORDS
"""

import itertools
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import webdataset
from clocked import clocked

Sample = tuple[bytes, int]


def images(source: Path) -> Iterator[Sample]:
    for number, folder in enumerate(sorted(source.iterdir())):
        for path in sorted(folder.iterdir()):
            yield path.read_bytes(), number


def samples(source: Path, records: int) -> list[Sample]:
    held = np.load(source / "table.npz")
    return list(zip(map(bytes, held["jpg"][:records]), held["cls"][:records].tolist(), strict=True))


def main(kind: str, source: Path, output: Path, records: int) -> None:
    found = samples(source, records) if kind == "samples" else images(source)

    def work() -> int:
        count = 0
        with webdataset.TarWriter(str(output / "data.tar")) as out:
            for picture, number in itertools.islice(found, records):
                out.write({"__key__": f"{count:012d}", "jpg": picture, "cls": number})
                count += 1
        return count

    clocked(work)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]), int(sys.argv[4]))
