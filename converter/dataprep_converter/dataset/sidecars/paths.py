"""For each split, a list of its shards, with one shard per line, in the order of the records.

_dataprep/files/<split>.txt     paths relative to the output, for readers that know the folder, such as the loaders
_dataprep/paths/<split>.txt     absolute URIs, for readers given only the list, such as Spark's `textFile` and DL4J's path-based loaders
"""

from dataprep_api import names
from dataprep_api.dataset.report import Manifest
from dataprep_converter.dataset.sidecars import FinishedDataSet, Made, absolute


def make(finished: FinishedDataSet) -> Made:
    """Yields a list of relative paths for each split."""
    for name, files in _by_split(finished.manifest).items():
        yield f"{names.SIDE}/files/{name}.txt", "".join(f"{file}\n" for file in files).encode()


def place(uri: str, manifest: Manifest) -> Made:
    """Yields a list of absolute URIs for each split of a data set in this folder."""
    for name, files in _by_split(manifest).items():
        yield f"{names.SIDE}/paths/{name}.txt", "".join(f"{names.join(absolute(uri), file)}\n" for file in files).encode()


def _by_split(manifest: Manifest) -> dict[str, list[str]]:
    return {split.name: [file.file for file in manifest.files if file.split == split.name] for split in manifest.splits}
