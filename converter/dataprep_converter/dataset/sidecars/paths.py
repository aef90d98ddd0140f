"""For each split, a list of its shards, with one shard per line, in the order of the records.

_dataprep/files/<split>.txt     paths relative to the output, for readers that know the folder, such as the loaders
_dataprep/paths/<split>.txt     absolute URIs, for readers given only the list, such as Spark's `textFile` and DL4J's path-based loaders
"""

from io import BytesIO

from dataprep_api import names
from dataprep_api.dataset.report import Manifest
from dataprep_converter.dataset.shard_table import plain_fields
from dataprep_converter.dataset.sidecars import FinishedDataSet, Made, absolute


def make(finished: FinishedDataSet) -> Made:
    """Yields a list of relative paths for each split."""
    for split in finished.manifest.splits:
        yield f"{names.SIDE}/files/{split.name}.txt", _lines(finished.manifest, split.name, folder="")


def place(uri: str, manifest: Manifest) -> Made:
    """Yields a list of absolute URIs for each split of a data set in this folder."""
    for split in manifest.splits:
        yield f"{names.SIDE}/paths/{split.name}.txt", _lines(manifest, split.name, folder=names.join(absolute(uri), ""))


def _lines(manifest: Manifest, split: str, *, folder: str) -> bytes:
    """Returns a line for each of the split's files: `folder`, followed by the file's relative path."""
    lines = BytesIO()
    for file, of_split in plain_fields(manifest.files, "file", "split"):
        if of_split == split:
            lines.write(f"{folder}{file}\n".encode())
    return lines.getvalue()
