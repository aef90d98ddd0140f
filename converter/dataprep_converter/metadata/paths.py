"""Path lists: `_dataprep/paths/<split>.txt`, one shard a line, relative to the output, in the order of the records."""

from dataprep_api import names
from dataprep_converter.metadata import Finished, Made


def make(finished: Finished) -> Made:
    """One file for each split."""
    for split in finished.manifest.splits:
        files = [file.file for file in finished.manifest.files if file.split == split.name]
        yield path_list(split.name), "".join(f"{file}\n" for file in files).encode()


def path_list(split: str) -> str:
    """Where the list of a split lies, relative to the output."""
    return f"{names.SIDE}/paths/{split}.txt"
