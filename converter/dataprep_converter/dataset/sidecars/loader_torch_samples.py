"""`load_torch.py` for formats with their own libraries: webdataset, mds (MosaicML Streaming) and npz (NumPy)."""

from string import Template
from typing import Final

from dataprep_converter.dataset.sidecars import FinishedDataSet, loader_source
from dataprep_converter.formats.archives.webdataset_encoder import SNIFFED, members

_WEBDATASET: Final = Template('''\
"""Loads this data set with PyTorch: `Records("train")` is a dataset, `python load_torch.py [FOLDER]` counts its records.

Needs webdataset$pillow.
"""

import sys
from pathlib import Path

import webdataset

FOLDER = Path(__file__).resolve().parents[2]
$splits$classes$members

$files

def record(sample):
    """A sample as a dictionary of features; one that it lacks is None."""
    return {name: next((sample[each] for each in extensions if each in sample), None) for name, extensions in MEMBERS.items()}


def Records(split, folder=FOLDER):
    """The split's records in their order, as dictionaries; the workers of a DataLoader share the shards."""
    data = webdataset.WebDataset(files(split, folder), shardshuffle=False, empty_check=False)
    return data.decode($decode).map(record)


''')
_MDS: Final = Template('''\
"""Loads this data set with PyTorch: `Records("train")` is a dataset, `python load_torch.py [FOLDER]` counts its records.

Needs mosaicml-streaming. FOLDER may be of any store that it reads (s3://, oci://, …): shards are then copied to `local`.
"""

import sys
import tempfile
from pathlib import Path

from streaming import StreamingDataset

FOLDER = Path(__file__).resolve().parents[2]
$splits$classes

def Records(split, folder=FOLDER, local=None, **options):
    """The split's records as dictionaries; `shuffle=True`, `batch_size=` and others are StreamingDataset's own."""
    options = {"shuffle": False, "batch_size": 1, "validate_hash": "sha256"} | options
$opened

''')
_FETCHED: Final = "StreamingDataset(remote=str(folder), local=local or tempfile.mkdtemp(), split=split, **options)\n"
_WHERE_IT_LIES: Final = f"""\
    if "://" in str(folder):
        return {_FETCHED}\
    return StreamingDataset(local=str(folder), split=split, **options)
"""
_DECOMPRESSED: Final = (
    f"    # The library puts the decompressed shards beside the others, so it gets a folder of its own.\n    return {_FETCHED}"
)
_NPZ: Final = Template('''\
"""Loads this data set with PyTorch: `Records("train")` is a dataset, `python load_torch.py [FOLDER]` counts its records.

Needs torch and numpy. `Records("train", files_whole=True)` gives the arrays of a file at once: with granularity: Minibatch, a minibatch.
"""

import sys
from pathlib import Path

import numpy as np
import torch

FOLDER = Path(__file__).resolve().parents[2]
$splits$classes

$files

class Records(torch.utils.data.IterableDataset):
    """The split's records in their order, as dictionaries of tensors; the workers of a DataLoader share the files."""

    def __init__(self, split, folder=FOLDER, files_whole=False):
        self.files = files(split, folder)
        self.files_whole = files_whole

    def __iter__(self):
        worker = torch.utils.data.get_worker_info()
        for file in self.files[worker.id :: worker.num_workers] if worker else self.files:
            with np.load(file, allow_pickle=False) as stored:
                arrays = {name: torch.from_numpy(stored[name]) for name in stored.files}
            if self.files_whole:
                yield arrays
                continue
            for number in range(len(next(iter(arrays.values())))):
                yield {name: values[number] for name, values in arrays.items()}


''')
_MAIN: Final = '''\
def main():
    """Counts the records of every split."""
    for split, expected in SPLITS.items():
        found = sum(1 for _ in Records(split, *sys.argv[1:2])) if expected else 0
        print(f"{split}: {found} of {expected} records")


if __name__ == "__main__":
    main()
'''


def webdataset(finished: FinishedDataSet) -> str:
    """Returns the file for `webdataset`."""
    has_images = any(feature.name.endswith(SNIFFED) and feature.dtype == "bytes" and not feature.text for feature in finished.features)
    return _fill(
        _WEBDATASET,
        finished,
        pillow=", and Pillow for images" if has_images else "",
        members=_members(finished),
        files=loader_source.files_function("this loader"),
        decode='"pil"' if has_images else "",
    )


def mds(finished: FinishedDataSet) -> str:
    """Returns the file for `mds`."""
    return _fill(_MDS, finished, opened=_WHERE_IT_LIES if finished.manifest.compression == "none" else _DECOMPRESSED)


def npz(finished: FinishedDataSet) -> str:
    """Returns the file for `npz`."""
    return _fill(_NPZ, finished, files=loader_source.files_function("Python"))


def _fill(template: Template, finished: FinishedDataSet, **parts: str) -> str:
    splits, classes = loader_source.splits(finished), loader_source.classes(finished)
    return loader_source.filled(Template(template.template + _MAIN), splits=splits, classes=classes, **parts)


def extensions(finished: FinishedDataSet) -> dict[str, list[str]]:
    """Returns, for each feature, the extensions that its member can have."""
    return {member.feature.name: member.extensions() for member in members(finished.features, finished.spec.output.webdataset)}


def _members(finished: FinishedDataSet) -> str:
    members = {name: str(names) for name, names in extensions(finished).items()}
    return loader_source.dictionary("MEMBERS", members, "Extensions of each feature's member: of an image, that of what it is.")
