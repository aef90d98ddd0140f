"""Runs img2dataset's Resizer with its recommended options, without downloads. It decodes JPEG files, resizes them to a shortest side of
256, and encodes them again at quality 95. It runs one process per core, and each process writes its own tar file with webdataset's
TarWriter.

img2dataset_resizing.py resize INPUT OUTPUT RECORDS PROCESSES
"""

import importlib.util
import io
import os
import sys
import types
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

os.environ["NO_ALBUMENTATIONS_UPDATE"] = "1"  # otherwise the library would check for updates

import webdataset
from clocked import clocked

# The package's __init__ imports its downloader and the downloader's dependencies, which the resizer doesn't need.
_FOUND = importlib.util.find_spec("img2dataset")
assert _FOUND is not None  # noqa: S101 - the script ends if the package is missing
_PACKAGE = types.ModuleType("img2dataset")
_PACKAGE.__path__ = list(_FOUND.submodule_search_locations or [])
sys.modules["img2dataset"] = _PACKAGE

from img2dataset.resizer import Resizer  # noqa: E402


def convert(files: list[Path], place: Path) -> int:
    resize = Resizer(256, "keep_ratio", resize_only_if_bigger=True, encode_quality=95)
    with webdataset.TarWriter(str(place)) as out:
        for path in files:
            encoded, *_, error = resize(io.BytesIO(path.read_bytes()))
            if error is not None:
                sys.exit(f"{path}: {error}")
            out.write({"__key__": path.stem, "jpg": encoded})
    return len(files)


def main(source: Path, output: Path, records: int, processes: int) -> None:
    files = sorted(source.glob("*/*.jpg"))[:records]
    each = -(-len(files) // processes)
    parts = [files[first : first + each] for first in range(0, len(files), each)]
    places = [output / f"data-{number}.tar" for number in range(len(parts))]
    # The clock starts once all processes have imported the resizer.
    with ProcessPoolExecutor(processes, get_context("spawn")) as pool:
        list(pool.map(abs, range(processes), chunksize=1))
        clocked(lambda: sum(pool.map(convert, parts, places)), waits=False)


if __name__ == "__main__":
    main(Path(sys.argv[2]), Path(sys.argv[3]), int(sys.argv[4]), int(sys.argv[5]))
