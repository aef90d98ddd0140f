"""`<split>/index.json` of the format `mds`: its shards and their columns. The library opens it first, so it is the one visible file of this folder.

Shards without records are left out: the library has no use for them.
"""

from dataprep_api import names
from dataprep_converter.encoders.mds import columns, index, shard_of_index
from dataprep_converter.metadata import Finished, Made


def make(finished: Finished) -> Made:
    """One for each split that has shards."""
    if finished.manifest.format != "mds":
        return
    stored = columns(finished.features, finished.spec.output.mds)
    for split in finished.manifest.splits:
        shards = [file for file in finished.manifest.files if file.split == split.name]
        listed = [
            shard_of_index(stored, basename=file.file.rpartition("/")[2], size=file.size, records=file.records, sha256=file.sha256)
            for file in shards
            if file.records
        ]
        for path in names.split_files("mds", (file.file for file in shards)):
            yield path, index(listed)
