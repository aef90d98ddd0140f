"""Reads a data set with DataLoaders over dataprep_reader and prints it as JSON: read_by_torch.py PACKAGES FOLDER.

PACKAGES contains the folders of the reader and its dependencies, separated by colons.
"""

import json
import sys
import warnings

packages, folder = sys.argv[1:]
sys.path += packages.split(":")

import torch  # noqa: E402 - only after the path is set
from torch.utils.data import DataLoader  # noqa: E402

import dataprep_reader  # noqa: E402
from dataprep_reader.torch import Batches  # noqa: E402

warnings.simplefilter("error")


def numbers(workers: int, **options: object) -> list[list[int]]:
    """The numbers of each batch."""
    reader = dataprep_reader.open(folder, batch_size=8, epochs=2, shuffle=3, **options)  # type: ignore[arg-type]  # options of several types
    loader = DataLoader(Batches(reader, workers=workers), batch_size=None, num_workers=workers)
    found = [batch["n"].tolist() for batch in loader]
    assert len(found) == len(loader)
    return found


def main() -> None:
    """Read with one process, with two workers, and with two ranks of two workers each."""
    (batch,) = DataLoader(Batches(dataprep_reader.open(folder, batch_size=1_000)), batch_size=None)
    kinds = {name: [str(column.dtype), list(column.shape)] for name, column in batch.items() if isinstance(column, torch.Tensor)}
    batch["image"] += 1  # tensors are writable
    json.dump(
        {
            "kinds": kinds,
            "first": batch["image"][1].tolist(),
            "lengths": [len(each) for each in batch["values"]],
            "text": batch["text"][:2],
            "one": numbers(0),
            "two": numbers(2),
            "ranks": [numbers(2, rank=rank, world_size=2) for rank in range(2)],
        },
        sys.stdout,
    )


if __name__ == "__main__":
    main()
