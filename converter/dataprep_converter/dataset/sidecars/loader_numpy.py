"""`load_numpy.py`: reads npz files as arrays."""

from string import Template
from typing import Final

from dataprep_converter.dataset.sidecars import FinishedDataSet, loader_source

_LOADER: Final = Template('''\
"""Loads this data set with NumPy: `for arrays in load("train")`, or `python load_numpy.py [FOLDER]` to count its records."""

import sys
from pathlib import Path

import numpy as np

FOLDER = Path(__file__).resolve().parents[2]
$splits$classes$arrays

$files

def load(split, folder=FOLDER):
    """The arrays of each file in turn, the records along their first dimension: with granularity: Minibatch, a minibatch each."""
    for file in files(split, folder):
        with np.load(file, allow_pickle=False) as stored:
            yield {name: stored[name] for name in ARRAYS}


def main():
    """Counts the records of every split."""
    for split, expected in SPLITS.items():
        found = sum(len(next(iter(arrays.values()))) for arrays in load(split, *sys.argv[1:2]))
        print(f"{split}: {found} of {expected} records")


if __name__ == "__main__":
    main()
''')


def text(finished: FinishedDataSet) -> str:
    """Returns the file."""
    arrays = {
        f"{'labels' if feature.label else 'features'}/{feature.name}": repr((feature.dtype, feature.shape)) for feature in finished.features
    }
    return loader_source.filled(
        _LOADER,
        splits=loader_source.splits(finished),
        classes=loader_source.classes(finished),
        arrays=loader_source.dictionary("ARRAYS", arrays, "Type and shape of a record of each array."),
        files=loader_source.files_function("NumPy"),
    )
