"""The result of a commit step, shortened for the operator and the command line."""

import platform
import zlib
from bisect import bisect_left
from collections.abc import Sequence
from typing import Final

import numpy as np
import pyarrow as pa

from dataprep_api import names
from dataprep_api.dataset.messages import CommitResult
from dataprep_api.dataset.report import Manifest, ShardReport, Success
from dataprep_api.resources.status import MAX_OUTPUTS, OutputFile, RecordProgress, SplitStatus
from dataprep_api.stages import READ_WAIT, REFUSALS, SHARD_BOUNDS, SIDES
from dataprep_converter import __version__
from dataprep_converter.dataset.output_folder import OutputFolder
from dataprep_converter.dataset.sidecars import sagemaker
from dataprep_converter.records import lossy
from dataprep_converter.stores import scheme_of
from dataprep_converter.stores.hdfs import hadoop

_STAGES: Final = (*(stage for side in SIDES for stage in side), READ_WAIT)
MAX_WARNINGS = 10


def result_of(
    manifest: Manifest, success: Success, folder: OutputFolder, *, reports: Sequence[ShardReport] = (), warnings: Sequence[str] = ()
) -> CommitResult:
    """Returns a summary of the finished data set for the operator and the command line."""
    listed_files = manifest.files if len(manifest.files) <= MAX_OUTPUTS else []
    replicas = _replicas(folder) if listed_files else {}
    outputs = [
        OutputFile(
            uri=folder.at(file.file),
            split=file.split,
            bytes=file.size,
            records=file.records,
            sha256=file.sha256,
            replication=replicas.get(file.file),
        )
        for file in listed_files
    ]
    return CommitResult(
        run_id=manifest.run_id,
        manifest_uri=folder.at(success.manifest),
        manifest_sha256=success.sha256,
        digest=manifest.digest,
        quarantine_uri=folder.at(names.quarantine_folder(manifest.run_id)) if manifest.quarantine else None,
        files=len(manifest.files),
        records=RecordProgress(
            total=manifest.records_in,
            in_=manifest.records_in,
            out=manifest.records_out,
            bad=manifest.bad,
            filtered=manifest.filtered,
            added=manifest.added,
        ),
        bytes_in=sum(report.bytes_in for report in reports),
        bytes_out=manifest.size,
        splits=[
            SplitStatus(name=split.name, records=split.records, shards=split.shards, bytes=split.size) for split in manifest.splits[:16]
        ],
        outputs=outputs,
        bad=manifest.bad_examples[:20],
        seconds={stage: round(sum(report.seconds.get(stage, 0.0) for report in reports), 3) for stage in _STAGES} if reports else {},
        bad_reasons={reason: count for reason in REFUSALS if (count := sum(report.bad_reasons.get(reason, 0) for report in reports))},
        channels=sagemaker.channels(folder.uri, manifest),
        shard_seconds=round(sum(report.took_seconds for report in reports), 3),
        shards_within=_count_by_bound([report.took_seconds for report in reports if report.took_seconds]),
        warnings=[warning[:512] for warning in [*lossy.warnings(manifest.lossy), *warnings][:MAX_WARNINGS]],
    )


def _replicas(folder: OutputFolder) -> dict[str, int]:
    """Returns each file's replication factor by path, on stores that replicate files."""
    if scheme_of(folder.uri) not in hadoop.SCHEMES:
        return {}
    replications = {path: entry.details.replication for path, entry in folder.visible() if entry.details is not None}
    return {path: replication for path, replication in replications.items() if replication is not None}


def _count_by_bound(seconds: Sequence[float]) -> list[int]:
    """For each bound, returns the number of shards that took at most this long, but longer than the previous bound.

    The last number counts the shards that took longer than all bounds.
    """
    counts = [0] * (len(SHARD_BOUNDS) + 1)
    for each in seconds:
        counts[bisect_left(SHARD_BOUNDS, each)] += 1
    return counts if seconds else []


def tool_versions() -> dict[str, str]:
    """Returns the versions of the tools that can affect compressed or parsed bytes."""
    return {
        "dataprep": __version__,
        "numpy": np.__version__,
        "pyarrow": pa.__version__,
        "python": platform.python_version(),
        "zlib": zlib.ZLIB_RUNTIME_VERSION,
    }
