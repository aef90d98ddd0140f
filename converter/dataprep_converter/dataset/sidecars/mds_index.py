"""`<split>/index.json` of the format `mds`: the split's shards and their columns.

MosaicML Streaming opens this file first, so its name must not be hidden.

Shards without records are left out, because the library doesn't need them.
"""

from typing import TypedDict

from dataprep_api import names
from dataprep_api.dataset.report import ShardReport
from dataprep_converter.dataset.sidecars import FinishedDataSet, Made
from dataprep_converter.formats.mds.mds_encoder import MdsFile, algorithm, columns, index, shard_of_index


def make(finished: FinishedDataSet) -> Made:
    """Yields one index for each split that has shards."""
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
    raw: MdsFile
    compressed: MdsFile | None


def _files(report: ShardReport) -> _Files:
    """Describes the raw form of a shard's file and, if the file is compressed, also the compressed form.

    The raw file's name lacks the compression's extension.
    """
    name = report.file.rpartition("/")[2]
    there = MdsFile(name, report.size, report.sha256)
    if report.sha256 == report.raw_sha256:
        return {"raw": there, "compressed": None}
    return {"raw": MdsFile(name.rpartition(".")[0], report.raw_size, report.raw_sha256), "compressed": there}
