"""`<split>/index.json` of the format `mds`: its shards and their columns. The library opens it first, so it is the one visible file of this folder.

Shards without records are left out: the library has no use for them.
"""

from typing import TypedDict

from dataprep_api import names
from dataprep_api.dataset.report import ShardReport
from dataprep_converter.dataset.sidecars import Finished, Made
from dataprep_converter.formats.mds.mds_encoder import Stored, algorithm, columns, index, shard_of_index


def make(finished: Finished) -> Made:
    """One for each split that has shards."""
    options = finished.spec.output.mds
    stored = columns(finished.features, options)
    reports = {report.file: report for report in finished.reports}
    for split in finished.manifest.splits:
        shards = [file for file in finished.manifest.files if file.split == split.name]
        listed = [
            shard_of_index(stored, records=file.records, compression=algorithm(options), **_files(reports[file.file]))
            for file in shards
            if file.records
        ]
        for path in names.split_files("mds", (file.file for file in shards)):
            yield path, index(listed)


class _Files(TypedDict):
    raw: Stored
    compressed: Stored | None


def _files(report: ShardReport) -> _Files:
    """A shard's file, and the one that it becomes when it is decompressed: the same name without the last ending."""
    name = report.file.rpartition("/")[2]
    there = Stored(name, report.size, report.sha256)
    if report.sha256 == report.raw_sha256:
        return {"raw": there, "compressed": None}
    return {"raw": Stored(name.rpartition(".")[0], report.raw_size, report.raw_sha256), "compressed": there}
