"""`<split>/index.json` of the format `mds`: the split's shards and their columns.

MosaicML Streaming opens this file first, so its name must not be hidden.

Shards without records are left out, because the library doesn't need them.
"""

from typing import TypedDict

from dataprep_api import names
from dataprep_api.dataset.report import ManifestFile
from dataprep_converter.dataset.sidecars import FinishedDataSet, Made
from dataprep_converter.formats.mds.mds_encoder import MdsFile, algorithm, columns, index, shard_of_index


def make(finished: FinishedDataSet) -> Made:
    """Yields one index for each split that has shards."""
    options = finished.spec.output.mds
    stored = columns(finished.features, options)
    for split in finished.manifest.splits:
        shards = ((file, size) for file, size in zip(finished.manifest.files, finished.raw_sizes, strict=True) if file.split == split.name)
        listed, paths = [], set[str]()
        for file, raw_size in shards:
            paths |= names.split_files("mds", [file.file])
            if file.records:
                listed.append(shard_of_index(stored, records=file.records, compression=algorithm(options), **_files(file, raw_size)))
        for path in sorted(paths):
            yield path, index(listed)


class _Files(TypedDict):
    raw: MdsFile
    compressed: MdsFile | None


def _files(file: ManifestFile, raw_size: int) -> _Files:
    """Describes the raw form of a shard's file and, if the file is compressed, also the compressed form.

    The raw file's name lacks the compression's extension.
    """
    name = file.file.rpartition("/")[2]
    there = MdsFile(name, file.size, file.sha256)
    if file.sha256 == file.raw_sha256:
        return {"raw": there, "compressed": None}
    return {"raw": MdsFile(name.rpartition(".")[0], raw_size, file.raw_sha256), "compressed": there}
