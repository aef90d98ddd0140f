"""Lists of the shards of each split, one a line, in the order of the records.

_dataprep/files/<split>.txt     relative to the output, for what finds the folder by where it lies itself
_dataprep/paths/<split>.txt     absolute URIs, for who has the list alone: Spark's `textFile`, DL4J's loaders of paths
"""

from dataprep_api import names
from dataprep_api.dataset.report import Manifest
from dataprep_converter.dataset.sidecars import Finished, Made, absolute


def make(finished: Finished) -> Made:
    """The relative lists, one for each split."""
    for name, files in _by_split(finished.manifest).items():
        yield f"{names.SIDE}/files/{name}.txt", "".join(f"{file}\n" for file in files).encode()


def place(uri: str, manifest: Manifest) -> Made:
    """The absolute lists of a data set in this folder, one for each split."""
    for name, files in _by_split(manifest).items():
        yield f"{names.SIDE}/paths/{name}.txt", "".join(f"{names.join(absolute(uri), file)}\n" for file in files).encode()


def _by_split(manifest: Manifest) -> dict[str, list[str]]:
    return {split.name: [file.file for file in manifest.files if file.split == split.name] for split in manifest.splits}
