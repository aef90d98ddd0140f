"""Reads a data set with Grain and JAX over dataprep_reader and prints it as JSON: read_by_grain.py PACKAGES FOLDER.

PACKAGES contains the folders of the reader and its dependencies, separated by colons.
"""

import importlib.metadata
import itertools
import json
import sys
from collections.abc import Sequence
from typing import Any

packages, folder = sys.argv[1:]
sys.path += packages.split(":")

import grain  # noqa: E402 - only after the path is set
from absl import flags  # noqa: E402

import dataprep_reader  # noqa: E402
from dataprep_reader.grain import Batches  # noqa: E402


def dataset(rank: int = 0, ranks: int = 1, *, processes: int = 0, states: Sequence[Any] = (), epochs: int = 1) -> Any:
    """The dataset of one rank. If `states` has the states of all ranks' iterators, the dataset continues from them."""
    reader = dataprep_reader.open(folder, batch_size=3, epochs=epochs, shuffle=5, rank=rank, world_size=ranks, columns=["n"])
    if states:
        reader.restore(states)
    found = Batches(reader).map(lambda batch: batch["n"])
    return found.mp_prefetch(grain.multiprocessing.MultiprocessingOptions(num_workers=processes)) if processes else found


def numbers(iterator: Any, batches: int | None = None) -> list[int]:
    """The numbers in the next batches."""
    return [number for batch in itertools.islice(iterator, batches) for number in batch.tolist()]


def as_stored(state: Any) -> Any:
    return json.loads(json.dumps(state))


def restored(processes: int) -> list[list[int]]:
    """Three lists of numbers.

    The iterator yields the first list before a state, and the second list after it. Another iterator yields the third list after the same
    state.
    """
    first, second = iter(dataset(processes=processes, epochs=2)), iter(dataset(processes=processes, epochs=2))
    begin = numbers(first, 9)
    second.set_state(as_stored(first.get_state()))
    found = [begin, numbers(first), numbers(second)]
    first.close()
    second.close()
    return found


def taken_up() -> list[int]:
    """The numbers in an epoch that two ranks with two processes each begin, and that three ranks without extra processes finish."""
    found, states = [], []
    for rank in range(2):
        iterator = iter(dataset(rank, 2, processes=2))
        found += numbers(iterator, 5)
        states.append(as_stored(iterator.get_state()))
        iterator.close()
    for rank in range(3):
        found += numbers(iter(dataset(rank, 3, states=states)))
    return found


def sums() -> list[float]:
    """The sums of the batches' arrays, computed by JAX. JAX is imported here, so Grain's processes don't import it."""
    import jax

    summed = jax.jit(lambda batch: sum(column.sum() for column in batch.values()))
    return [float(summed(batch)) for batch in Batches(dataprep_reader.open(folder, batch_size=16, columns=["n", "v"]))]


def main() -> None:
    """Read with JAX, restore states, and change the number of ranks."""
    flags.FLAGS.mark_as_parsed()  # Grain's processes need parsed flags; `absl.app.run` would parse them
    json.dump(
        {
            "sums": sums(),
            "restored": [restored(processes) for processes in (0, 2)],
            "taken_up": taken_up(),
            "versions": {name: importlib.metadata.version(name) for name in ("grain", "jax")},
        },
        sys.stdout,
    )


if __name__ == "__main__":
    main()
