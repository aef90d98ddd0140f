"""`format: copy` and `dataprep copy`: copy a finished data set to another location, byte for byte.

A copy has the run id, the plan and the manifest of the original. Its reports differ from the reports of the original only in the pins. So
the copy can be verified, repaired, extended and reused like the original. The plan is copied first and `_SUCCESS` last, so that the folder
counts as an unfinished run in the meantime. Files that already exist are not copied again.
"""

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from threading import Event
from typing import Final

from dataprep_api import names
from dataprep_api.dataset.messages import CommitResult
from dataprep_api.dataset.plan import Shard
from dataprep_api.dataset.report import Manifest, ShardReport, Success
from dataprep_api.spec import DataPrepJobSpec
from dataprep_converter.core.errors import BadSpec, InputChanged, NotWhole
from dataprep_converter.dataset import crosscheck, overlaps, sidecars
from dataprep_converter.dataset.expected_files import ExpectedFiles
from dataprep_converter.dataset.listing import listing_fault, load_manifest, remove_stale_files
from dataprep_converter.dataset.manifest_table import listed_metadata
from dataprep_converter.dataset.output_folder import OutputFolder, RunFolder
from dataprep_converter.dataset.stored_reports import BundleWriter
from dataprep_converter.inputs.access import Access
from dataprep_converter.pipeline.task_progress import TaskProgress
from dataprep_converter.runtime import allocator
from dataprep_converter.runtime.ahead import mapped_ahead
from dataprep_converter.runtime.retry import RetryPolicy, retrying
from dataprep_converter.sampling.plan import Plan
from dataprep_converter.steps.commit_result import Totals, result_of
from dataprep_converter.steps.draft import Draft
from dataprep_converter.stores import Entry
from dataprep_converter.stores.publish import copy_file, digest_of

logger = logging.getLogger(__name__)

_FILES_AT_ONCE: Final = 8
_FILE_RETRY_POLICY = RetryPolicy(attempts=3, total_seconds=300, first_delay_seconds=1)
"""How copying a file is retried when a store fails. Each retry copies the file from the beginning."""


class _StoppedError(Exception):
    """The copy was stopped because the caller no longer waits for this file."""


@dataclass(frozen=True)
class Original:
    """The data set to be copied."""

    folder: RunFolder
    success: Success
    manifest: Manifest
    plan: Plan


@dataclass(frozen=True, kw_only=True)
class CopyDraft(Draft):
    """A copy of a finished data set."""

    original: Original

    def is_satisfied_by(self, success: Success) -> bool:
        """Whether the folder already contains this copy.

        Any run of the job would give the same files, so the copy is repeated only if `output.overwrite` is `Always`.
        """
        return success == self.original.success and self.spec.output.overwrite != "Always"

    def put_plan(self, folder: RunFolder) -> None:
        """Copies the original's plan. The head is copied last."""
        copier = _Copier(self.spec, self.original.folder, folder, self.access, Event())
        head = self.plan.head
        for path, sha256 in (
            (names.units_file(folder.run_id), head.units_sha256),
            (names.codes_file(folder.run_id), head.codes_sha256),
            (names.plan_file(folder.run_id), self.plan.sha256),
        ):
            if sha256 is not None:
                copier.copy(path, sha256)


def check_overlaps(spec: DataPrepJobSpec, access: Access) -> None:
    """Raises BadSpec when the copy and the original overlap."""
    overlaps.check(spec.data.inputs(), spec.output.uri, access)


def plan(spec: DataPrepJobSpec, access: Access) -> CopyDraft:
    """Returns a draft with the original's plan. Raises the same errors as `_find_original`."""
    original = _find_original(spec, access)
    return CopyDraft(
        spec=spec, access=access, plan=original.plan, classes=original.manifest.labels, size=original.manifest.size, original=original
    )


def _find_original(spec: DataPrepJobSpec, access: Access) -> Original:
    """Returns the data set to be copied.

    Raises NotFound if the data set isn't finished, BadSpec if its digest isn't the expected one, and NotWhole if files are missing.
    """
    uri, expected = _source(spec)
    manifest = load_manifest(uri, access)
    if expected not in (None, manifest.digest):
        raise BadSpec(f"{uri} has the digest {manifest.digest}, but source.dataset.digest is {expected}.")
    folder = OutputFolder(uri, access).of_run(manifest.run_id)
    success, plan = folder.success(), folder.plan()
    fault = listing_fault(manifest, folder) if success is not None and plan is not None else "its plan is missing"
    if fault is not None or success is None or plan is None:
        raise NotWhole(f"{uri}: {fault}. See dataprep verify.", uri=uri)
    return Original(folder, success, manifest, plan)


def work(
    spec: DataPrepJobSpec, *, plan: Plan, shards: Sequence[Shard], access: Access, attempt: str, watch: Callable[[TaskProgress], None]
) -> TaskProgress:
    """Copies the files of the given shards, except those that already exist. Several files are copied at a time."""
    allocator.tune_allocator()
    progress = TaskProgress()
    bundles = BundleWriter(OutputFolder(spec.output.uri, access).of_run(plan.head.run_id), plan.head)
    with _copy_files(spec, plan, access, [shard.number for shard in shards], attempt=attempt) as copied_files:
        for report, is_new in copied_files:
            bundles.add(report)
            progress.finish(report, is_new=is_new)
            watch(progress)
    return progress


def commit(spec: DataPrepJobSpec, *, plan: Plan, access: Access) -> CommitResult:
    """Copies the remaining files, and marks the copy as finished. Idempotent.

    The remaining files, which no task copies, are indexes, metadata, and all files of a script's data set.
    """
    manifest, success = _check_unchanged(spec, plan, access)
    folder = OutputFolder(spec.output.uri, access).of_run(plan.head.run_id)
    with folder.owned():
        # An earlier commit may have published the copy.
        folder.begin()
        with _copy_files(spec, plan, access, range(len(manifest.files)), attempt="commit") as copied_files:
            totals = Totals()
            for report, _ in copied_files:
                totals.add(report)
        remove_stale_files(folder, keep=ExpectedFiles.of_manifest(manifest))
        copier = _Copier(spec, OutputFolder(_source(spec)[0], access).of_run(plan.head.run_id), folder, access, Event())
        others = [file for file in listed_metadata(manifest) if not file.file.startswith(f"{names.INDEX}/")]
        for file in others:
            copier.copy(file.file, file.sha256)
        placed = list(sidecars.location_files(folder.uri, manifest))
        folder.put_metadata(placed, hdfs=None)
        indexes = ExpectedFiles()
        for file in manifest.metadata:
            indexes.add(file.file, file.size)
        kept = {path for path, _ in placed}
        folder.remove([path for path in indexes.others(folder.side_files()) if path not in kept])
        fault = listing_fault(manifest, folder)
        if fault is not None:
            raise NotWhole(f"{folder.uri}: {fault}.", uri=folder.uri)
        if manifest.file_table is not None:
            copier.copy(manifest.file_table.file, manifest.file_table.sha256)
        copier.copy(success.manifest, success.sha256)
        folder.put_success(success)
    return result_of(manifest, success, folder, totals=totals)


@contextmanager
def _copy_files(
    spec: DataPrepJobSpec, plan: Plan, access: Access, numbers: Sequence[int], *, attempt: str
) -> Iterator[Iterator[tuple[ShardReport, bool]]]:
    """For each of the files with these numbers, in order, yields its report and whether this call copied the file.

    When the caller leaves the context, copies that are still in progress are stopped.
    """
    manifest, _ = _check_unchanged(spec, plan, access)
    source, target = (OutputFolder(uri, access).of_run(plan.head.run_id) for uri in (_source(spec)[0], spec.output.uri))
    stop = Event()
    copier = _Copier(spec, source, target, access, stop)
    copied_files = mapped_ahead(lambda number: copier.file(number, manifest, plan, attempt=attempt), numbers, most=_FILES_AT_ONCE)
    with closing(copied_files):
        try:
            yield copied_files
        finally:
            stop.set()


@dataclass(frozen=True)
class _Copier:
    """Copies files from one folder to another."""

    spec: DataPrepJobSpec
    source: RunFolder
    target: RunFolder
    access: Access
    stop: Event

    def file(self, number: int, manifest: Manifest, plan: Plan, *, attempt: str) -> tuple[ShardReport, bool]:
        """Copies one shard, its companions and its report. Raises NotWhole when the original doesn't match its manifest."""
        existing = self.target.report(number)
        if existing is not None and self.target.is_done(existing, plan):
            return existing, False
        file = manifest.files[number]
        report = self.source.report(number)
        if report is None or crosscheck.differences(report, file, number=number, run_id=manifest.run_id):
            raise NotWhole(
                f"{self.source.at(names.report_file(manifest.run_id, number))}, the report of {file.file}, is missing or was changed. See dataprep verify."
            )
        index = report.index
        if index is not None:
            index = index.model_copy(update={"pin": self.copy(index.file, index.sha256).pin})
        if report.quarantine is not None and report.quarantine_sha256 is not None:
            self.copy(report.quarantine, report.quarantine_sha256)
        for companion in file.companions:
            self.copy(companion.file, companion.sha256)
        entry = self.copy(file.file, file.sha256, size=file.size)
        report = report.model_copy(update={"pin": entry.pin, "index": index, "attempt": attempt})
        self.target.put_report(report)
        logger.info("copied %s: %d bytes", file.file, file.size)
        return report, True

    def copy(self, path: str, sha256: str, *, size: int | None = None) -> Entry:
        """Copies one file, unless the target already has it with this digest (and size, if known).

        Raises NotWhole when the original file has a different digest.
        """
        source, uri = self.source.at(path), self.target.at(path)
        store = self.access.store(uri)
        existing = store.stat(uri)
        if existing is not None and size in (None, existing.size) and digest_of(store, uri) == sha256:
            return existing

        def once() -> Entry:
            return copy_file(
                self.access.store(source),
                source,
                store,
                uri,
                sha256=sha256,
                hdfs=None if names.is_hidden(path) else self.spec.output.hdfs,
                on_piece=self._check_stopped,
                before_publishing=self.target.check_owner,
            )

        return retrying(once, what=f"copy of {source}", policy=_FILE_RETRY_POLICY)

    def _check_stopped(self) -> None:
        if self.stop.is_set():
            raise _StoppedError


def _check_unchanged(spec: DataPrepJobSpec, plan: Plan, access: Access) -> tuple[Manifest, Success]:
    """Returns the original's manifest and `_SUCCESS` mark. Raises InputChanged when the original has changed since the plan."""
    uri, _ = _source(spec)
    manifest = load_manifest(uri, access)
    success = OutputFolder(uri, access).success()
    if success is None or manifest.run_id != plan.head.run_id:
        raise InputChanged(
            f"{uri} now holds run {manifest.run_id}, but the copy was planned for run {plan.head.run_id}. Copy it again.",
            uri=uri,
        )
    return manifest, success


def _source(spec: DataPrepJobSpec) -> tuple[str, str | None]:
    """Returns the original's URI and its expected digest."""
    data_set = spec.data.dataset
    if data_set is None:
        raise BadSpec("output.format: copy needs source.dataset.")
    return data_set.uri.rstrip("/"), data_set.digest
