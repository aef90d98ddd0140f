"""For each split, a list of its shards, with one shard per line, in the order of the records.

_dataprep/files/<split>.txt     paths relative to the output, for readers that know the folder, such as the loaders
_dataprep/paths/<split>.txt     absolute URIs, for readers given only the list, such as Spark's `textFile` and DL4J's path-based loaders
"""

from collections.abc import Iterator
from io import BytesIO

from dataprep_api import names
from dataprep_api.dataset.report import Manifest
from dataprep_converter.dataset.shard_table import plain_fields
from dataprep_converter.dataset.sidecars import FinishedDataSet, Made, absolute


def make(finished: FinishedDataSet) -> Made:
    """Yields a list of relative paths for each split."""
    for name, lines in _by_split(finished.manifest, folder=""):
        yield f"{names.SIDE}/files/{name}.txt", lines


def place(uri: str, manifest: Manifest) -> Made:
    """Yields a list of absolute URIs for each split of a data set in this folder."""
    for name, lines in _by_split(manifest, folder=names.join(absolute(uri), "")):
        yield f"{names.SIDE}/paths/{name}.txt", lines


def _by_split(manifest: Manifest, *, folder: str) -> Iterator[tuple[str, bytes]]:
    """Yields each split's name, and a line for each of the split's files: the folder, and the path in it."""
    by_split = {split.name: BytesIO() for split in manifest.splits}
    for file, split in plain_fields(manifest.files, "file", "split"):
        by_split[split].write(f"{folder}{file}\n".encode())
    for name, lines in by_split.items():
        yield name, lines.getvalue()
