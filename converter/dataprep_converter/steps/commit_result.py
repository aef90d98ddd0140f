"""The result of a commit step, shortened for the operator and the command line."""

import platform
import zlib
from bisect import bisect_left
from collections import Counter
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


class Totals:
    """Totals over the reports of all shards. These totals describe the work and aren't in the manifest."""

    def __init__(self) -> None:
        self.shards = 0
        self.bytes_in = 0
        self.seconds = dict.fromkeys(_STAGES, 0.0)
        self.bad_reasons: Counter[str] = Counter()
        self.shard_seconds = 0.0
        self._within = [0] * (len(SHARD_BOUNDS) + 1)

    def add(self, report: ShardReport) -> None:
        """Adds a report."""
        self.shards += 1
        self.bytes_in += report.bytes_in
        for stage in _STAGES:
            self.seconds[stage] += report.seconds.get(stage, 0.0)
        self.bad_reasons.update(report.bad_reasons)
        self.shard_seconds += report.took_seconds
        if report.took_seconds:
            self._within[bisect_left(SHARD_BOUNDS, report.took_seconds)] += 1

    def shards_within(self) -> list[int]:
        """For each bound, returns the number of shards whose time was at most this bound, but longer than the previous bound.

        The last number counts the shards that took longer than every bound. Returns an empty list if no shard's time is known.
        """
        return self._within if any(self._within) else []


def result_of(
    manifest: Manifest, success: Success, folder: OutputFolder, *, totals: Totals | None = None, warnings: Sequence[str] = ()
) -> CommitResult:
    """Returns a summary of the finished data set for the operator and the command line."""
    totals = totals or Totals()
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
        bytes_in=totals.bytes_in,
        bytes_out=manifest.size,
        splits=[
            SplitStatus(name=split.name, records=split.records, shards=split.shards, bytes=split.size) for split in manifest.splits[:16]
        ],
        outputs=outputs,
        bad=manifest.bad_examples[:20],
        seconds={stage: round(seconds, 3) for stage, seconds in totals.seconds.items()} if totals.shards else {},
        bad_reasons={reason: count for reason in REFUSALS if (count := totals.bad_reasons[reason])},
        channels=sagemaker.channels(folder.uri, manifest),
        shard_seconds=round(totals.shard_seconds, 3),
        shards_within=totals.shards_within(),
        warnings=[warning[:512] for warning in [*lossy.warnings(manifest.lossy), *warnings][:MAX_WARNINGS]],
    )


def _replicas(folder: OutputFolder) -> dict[str, int]:
    """Returns each file's replication factor by path, on stores that replicate files."""
    if scheme_of(folder.uri) not in hadoop.SCHEMES:
        return {}
    replications = {path: entry.details.replication for path, entry in folder.visible() if entry.details is not None}
    return {path: replication for path, replication in replications.items() if replication is not None}


def tool_versions() -> dict[str, str]:
    """Returns the versions of the tools that can affect compressed or parsed bytes."""
    return {
        "dataprep": __version__,
        "numpy": np.__version__,
        "pyarrow": pa.__version__,
        "python": platform.python_version(),
        "zlib": zlib.ZLIB_RUNTIME_VERSION,
    }
