"""Synthetic MNIST in IDX files: image i has pixel j = (31 i + 7 j) mod 256, and its label is i mod 10.

Images 0 to 59,999 are in the training files, and images 60,000 to 69,999 are in the test files. The digests of the TFRecord files come from
hand-written wire bytes, which were checked against protobuf's own code and read with TensorFlow 2.21.
"""

import gzip
import shutil
import struct
from dataclasses import dataclass
from pathlib import Path

import numpy as np

TRAIN, TEST, SIDE = 60_000, 10_000, 28
_BLOCK = 5_000


@dataclass(frozen=True)
class Expected:
    """A finished TFRecord file."""

    records: int
    size: int
    sha256: str


FILES = {
    "train.tfrecords": Expected(55_000, 49_005_000, "28a652fb317ed340e8b88ecfa5433215e66edec6c6e9b3f44f5100505623e1bc"),
    "validation.tfrecords": Expected(5_000, 4_455_000, "1c95197f5308779e02693ff20778c6a1c1a6b46c740eef9f7292da97be1ff08f"),
    "test.tfrecords": Expected(10_000, 8_910_000, "61caa6da3a1d08944a2b7b41380bba17b992fe56e3f23c453302d5fbb511b9c5"),
}
FASHION_FILES = {
    "train.tfrecords": Expected(55_000, 49_005_000, "4d359511726c03d1484e71eefec7a9a88c9ab51d8b98703fe24680cc26069fd0"),
    "validation.tfrecords": Expected(5_000, 4_455_000, "921d040e1bdc03f2f958ddcb07514dac81bb072930fbbb60d92f886366ec6efb"),
    "test.tfrecords": Expected(10_000, 8_910_000, "1fe6dcbf4695b187c9b02f1a780b03b03dd076247298efb651ff17f249c7b8ab"),
}
"""Fashion-MNIST's files, as packaged by Debian. Their digests also come from hand-written wire bytes."""


def copy_to(folder: Path) -> Path:
    """Copies the four files of all 70,000 images from the cache. Making them takes most of a second, and a dozen test processes need them."""
    from storeservers import cache  # imported here, because most processes make no more than a few images

    def make(empty: Path) -> None:
        write(empty)

    return shutil.copytree(cache.entry(f"mnist-{cache.key_of(Path(__file__))}", make), folder, dirs_exist_ok=True)


def write(folder: Path, *, train: int = TRAIN, test: int = TEST) -> Path:
    """Writes the four gzip files under MNIST's own names. Smaller sets consist of the first images."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, first, count in (("train", 0, train), ("t10k", TRAIN, test)):
        with gzip.GzipFile(folder / f"{name}-images-idx3-ubyte.gz", "wb", 1, mtime=0) as images:
            images.write(struct.pack(">IIII", 2051, count, SIDE, SIDE))
            for start in range(first, first + count, _BLOCK):
                numbers = np.arange(start, min(start + _BLOCK, first + count), dtype=np.int64)
                images.write(((31 * numbers[:, None] + 7 * np.arange(SIDE * SIDE)[None, :]) % 256).astype(np.uint8).tobytes())
        with gzip.GzipFile(folder / f"{name}-labels-idx1-ubyte.gz", "wb", 1, mtime=0) as labels:
            labels.write(struct.pack(">II", 2049, count) + (np.arange(first, first + count) % 10).astype(np.uint8).tobytes())
    return folder
