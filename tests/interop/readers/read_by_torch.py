"""Reads a data set with DataLoaders over dataprep_reader and prints it as JSON: read_by_torch.py PACKAGES FOLDER SHAPES.

torchdata's StatefulDataLoader saves states in the middle of an epoch. Different numbers of ranks and workers then continue from these
states.

PACKAGES contains the folders of the reader and its dependencies, separated by colons. SHAPES are the numbers of ranks and workers before and
after each change, as JSON.
"""

import importlib.metadata
import itertools
import json
import sys
import warnings
from typing import Any

packages, folder, shapes = sys.argv[1:]
sys.path += packages.split(":")

import torch  # noqa: E402 - only after the path is set
from torch.utils.data import DataLoader  # noqa: E402
from torchdata.stateful_dataloader import StatefulDataLoader  # noqa: E402

import dataprep_reader  # noqa: E402
from dataprep_reader.torch import Batches  # noqa: E402

warnings.simplefilter("error")
warnings.filterwarnings("ignore", "'set_vital' is deprecated")  # torchdata 0.11 calls this function


def numbers(workers: int, **options: object) -> list[list[int]]:
    """The numbers in each batch."""
    reader = dataprep_reader.open(folder, batch_size=8, epochs=2, shuffle=3, **options)  # type: ignore[arg-type]  # options of several types
    loader = DataLoader(Batches(reader, workers=workers), batch_size=None, num_workers=workers)
    found = [batch["n"].tolist() for batch in loader]
    assert len(found) == len(loader)
    return found


def loader_of(rank: int, shape: list[int], states: list[Any], **options: Any) -> StatefulDataLoader:
    """The loader of a rank. `shape` has the number of ranks, and the number of workers of each rank.

    If `states` isn't empty, the loader continues from these states of other loaders.
    """
    reader = dataprep_reader.open(folder, batch_size=2, shuffle=3, rank=rank, world_size=shape[0])
    if states:
        reader.restore(states)
    return StatefulDataLoader(Batches(reader), batch_size=None, num_workers=shape[1], **options)


def taken(loaders: list[StatefulDataLoader], steps: int | None) -> tuple[list[int], list[Any]]:
    """The numbers in the next batches of each loader, and the loaders' states after these batches, as a checkpoint stores them."""
    found, states = [], []
    for loader in loaders:
        batches = iter(loader)
        found += [number for batch in itertools.islice(batches, steps) for number in batch["n"].tolist()]
        states.append(loader.state_dict())
        del batches
    return found, json.loads(json.dumps(states))


def taken_up(before: list[int], after: list[int]) -> dict[str, list[int]]:
    """The numbers that the ranks read before and after each change of the number of ranks.

    Also the numbers that the same number of ranks reads after a restart.
    """
    first, states = taken([loader_of(rank, before, []) for rank in range(before[0])], 3)
    second, states_of_second = taken([loader_of(rank, after, states) for rank in range(after[0])], 1)
    last, _ = taken([loader_of(rank, before, states_of_second) for rank in range(before[0])], None)
    again = [loader_of(rank, before, []) for rank in range(before[0])]
    for loader, state in zip(again, states, strict=True):
        loader.load_state_dict(state)
    same, _ = taken(again, None)
    return {"first": first, "second": second, "last": last, "same": same}


def refusal() -> str:
    """The error message for the state of a loader that fetches its workers' states only at every fourth step."""
    loader = loader_of(0, [1, 2], [], snapshot_every_n_steps=4)
    _, states = taken([loader], 6)
    try:
        loader_of(0, [2, 0], states)
    except ValueError as exc:
        return str(exc)
    return ""


def main() -> None:
    """Read with one process, with two workers, and with two ranks of two workers each, and change these numbers in the middle of an
    epoch."""
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
            "taken_up": [taken_up(before, after) for before, after in json.loads(shapes)],
            "refusal": refusal(),
            "versions": {name: importlib.metadata.version(name) for name in ("torch", "torchdata")},
        },
        sys.stdout,
    )


if __name__ == "__main__":
    main()
