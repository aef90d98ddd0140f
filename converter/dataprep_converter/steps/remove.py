"""`spec.deletionPolicy: Delete`: removes exactly the files that the runs of one job have written.

Two conditions protect other files: the folder must belong to one of the given runs, and each visible file must match a report or the
manifest of one of these runs.

The removal can be repeated after a crash: plans, reports and manifests are removed after the files that they list, and OWNER is removed
last. The commit step also removes files, but only the files of *earlier* runs.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice
from typing import Final, TypeVar

from pydantic import ValidationError

from dataprep_api import names
from dataprep_api.dataset.messages import RemoveResult
from dataprep_api.dataset.plan import PlanHead, shards
from dataprep_api.dataset.report import Manifest, ShardReport
from dataprep_api.dataset.stored import StoredDocument
from dataprep_converter.core.errors import BadSpec, NotWhole
from dataprep_converter.dataset import sidecars
from dataprep_converter.dataset.output_folder import OutputFolder, RunFolder
from dataprep_converter.inputs.access import Access
from dataprep_converter.stores import Entry
from dataprep_converter.stores.publish import digest_of

_PARALLEL: Final = 16
_AT_ONCE: Final = 512
"""Number of files deleted between two checks of OWNER."""
_SHOWN: Final = 5
S = TypeVar("S", bound=StoredDocument)

_RUN_ID: Final = re.compile(r"[0-9a-f]{16}")
_OF_A_RUN: Final = re.compile(
    r"plan\.json|units\.parquet|splits\.parquet|upload\.json|manifest\.json|manifest-files\.parquet|made/.+|shuffle/\d+"
    r"|reports/\d{8,}\.json|reports/from-\d{8,}\.jsonl|quarantine/.+\.jsonl"
)
_OF_A_PLAN_STEP: Final = re.compile(
    "|".join(
        (
            names.scan_folder("[0-9a-f]{16}") + r"/([\d-]+\.json|listing-[0-9a-f]+\.\w+)",
            names.join_folder("[0-9a-f]{16}") + r"/(state\.json|[\w-]+\.arrow)",
            names.deduplication_folder("[0-9a-f]{16}") + r"/[\w-]+\.bits",
        )
    )
)


@dataclass(frozen=True)
class _FileRecord:
    """A visible file, as recorded by a run."""

    size: int
    sha256: str
    pin: str | None = None


def remove(uri: str, access: Access, *, runs: Sequence[str]) -> RemoveResult:
    """Removes the files that these runs of one job wrote to the output `uri`. Idempotent.

    Removes nothing if another run has claimed the folder in the meantime. Keeps files whose content has changed, and names them in the
    result. Raises BadSpec for a malformed run id, NotWhole when OWNER can't be read, and the store's errors.
    """
    for run in runs:
        if not _RUN_ID.fullmatch(run):
            raise BadSpec(f"A run id has 16 hex digits, got {run!r}.")
    access.write_to(uri)
    output = OutputFolder(uri, access)
    owner = _owner(output)
    if owner in runs:
        # Discard the unpublished files of this job's unfinished run, unless another run takes the folder over.
        output.abandon(lambda: _owner(output) in runs)
        owner = _owner(output)
    if owner is None:
        # An earlier removal may have ended before it was published.
        output.publish()
        return RemoveResult()
    if owner not in runs:
        return RemoveResult(owner=owner)
    folder = output.of_run(owner)

    # All files are read before any is removed, because reading a newer release's file raises NewerFormat.
    entries = dict(folder.all_files())
    runs_files = [_RunFiles(folder, run, entries) for run in runs]
    records: defaultdict[str, list[_FileRecord]] = defaultdict(list)
    for run_files in runs_files:
        for path, files in run_files.visible():
            records[path] += files
    existing = [path for path in records if path in entries]
    of_others = _pins_of_others(folder, runs, entries) if any(not records[path] for path in existing) else set()
    folder.begin()
    folder.remove_success()
    ours = {path for path in existing if entries[path].pin not in of_others and _is_ours(entries[path], records[path], access)}
    kept_paths = sorted(set(existing) - ours)
    removed_sizes = _delete(folder, ours, entries)
    removed_sizes += _delete(folder, [path for run in runs_files for path in run.beside() if path in entries], entries)
    # The plan step has removed its intermediate files. But a paused pod of a scan, or an executor that joins tables, may have stored more
    # files since then.
    removed_sizes += _delete(folder, filter(_OF_A_PLAN_STEP.fullmatch, entries), entries)
    # Reports are removed after the plan, because once the plan is gone, a second attempt needs the reports to identify the files.
    removed_sizes += _delete(folder, [path for run in runs_files for path in run.own if path.endswith("/plan.json")], entries)
    removed_sizes += _delete(folder, [path for run in runs_files for path in run.own if not path.endswith("/plan.json")], entries)
    folder.sweep()
    folder.check_owner()
    folder.delete(names.OWNER)
    folder.publish()
    return RemoveResult(
        files=len(removed_sizes), bytes=sum(removed_sizes), kept=len(kept_paths), kept_files=[path[:256] for path in kept_paths[:_SHOWN]]
    )


class _RunFiles:
    """The files of one run in the folder."""

    def __init__(self, folder: OutputFolder, run: str, paths: Mapping[str, Entry]) -> None:
        self._id = run
        self._uri = folder.uri
        self.own = [path for path in paths if _belongs(path, names.run_folder(run))]
        """Paths of the files in the run's folder."""
        self._head = _parse(PlanHead, names.plan_file(run), folder)
        self._manifest = _manifest(names.manifest_file(run), folder)
        with ThreadPoolExecutor(_PARALLEL, thread_name_prefix="reports") as readers:
            reports = readers.map(
                lambda path: _parse(ShardReport, path, folder),
                [path for path in self.own if "/reports/" in path and path.endswith(".json")],
            )
            self._reports = [report for report in reports if report is not None and report.is_intact()]

    def visible(self) -> Iterator[tuple[str, list[_FileRecord]]]:
        """Yields a (path, records) pair for every visible file. The list of records is empty for a planned file without a report."""
        for report in self._reports:
            yield report.file, [_FileRecord(report.size, report.sha256, report.pin)]
            yield from ((companion.file, [_FileRecord(companion.size, companion.sha256)]) for companion in report.companions)
        for file in self._manifest.files if self._manifest is not None else ():
            yield file.file, [_FileRecord(file.size, file.sha256)]
            yield from ((companion.file, [_FileRecord(companion.size, companion.sha256)]) for companion in file.companions)
        for metadata in self._manifest.metadata if self._manifest is not None else ():
            if not names.is_hidden(metadata.file):
                yield metadata.file, [_FileRecord(metadata.size, metadata.sha256)]
        if self._head is not None:
            planned_files = {shard.file for shard in shards(self._head)}
            yield from ((file, []) for file in sorted(planned_files | names.split_files(self._head.extension, planned_files)))

    def beside(self) -> Iterator[str]:
        """Yields the paths of the files that accompany the shards: indexes and metadata."""
        yield from (report.index.file for report in self._reports if report.index is not None)
        if self._manifest is not None:
            yield from (each.file for each in self._manifest.metadata if names.is_hidden(each.file))
            yield from (path for path, _ in sidecars.location_files(self._uri, self._manifest))

    def pins(self) -> set[str]:
        """Returns the pins of the shards that have a report."""
        return {report.pin for report in self._reports}


def _parse(model: type[S], path: str, folder: OutputFolder) -> S | None:
    """Returns the parsed file, or None if it is missing or damaged. Raises NewerFormat."""
    content = folder.read(path)
    try:
        return folder.parse(model, path, content) if content is not None else None
    except ValidationError:
        return None


def _manifest(path: str, folder: OutputFolder) -> Manifest | None:
    """Returns the manifest, or None if it is missing or damaged.

    If only the manifest's table is missing or damaged, returns the manifest without files. Raises NewerFormat.
    """
    head = _parse(Manifest, path, folder)
    try:
        return folder.with_table(head) if head is not None else None
    except NotWhole:
        return head


def _pins_of_others(folder: OutputFolder, runs: Sequence[str], entries: Mapping[str, Entry]) -> set[str]:
    """Returns the pins of the shards that runs of other jobs wrote to this folder, and that this job was about to replace."""
    return {pin for run in folder.runs() if run not in runs for pin in _RunFiles(folder, run, entries).pins()}


def _belongs(path: str, folder: str) -> bool:
    return path.startswith(f"{folder}/") and _OF_A_RUN.fullmatch(path.removeprefix(f"{folder}/")) is not None


def _owner(folder: OutputFolder) -> str | None:
    """Returns the run that owns the folder. Raises NotWhole if the owner can't be determined."""
    try:
        owner = folder.owner()
    except NotWhole as exc:
        raise NotWhole(f"{str(exc).rstrip('.')}; nothing was removed.", uri=exc.uri) from None
    success = folder.success()
    if success is not None and (owner is None or success.run_id != owner.run_id):
        return success.run_id
    return owner.run_id if owner is not None else None


def _is_ours(entry: Entry, records: Sequence[_FileRecord], access: Access) -> bool:
    """Whether the file's current content was written by a run of this job.

    A file without a report was still being written when the run ended; such a file belongs to the folder's owner.
    """
    if not records or any(entry.pin == record.pin for record in records):
        return True
    alike = {record.sha256 for record in records if record.size == entry.size}
    return bool(alike) and digest_of(access.store(entry.uri), entry.uri) in alike


def _delete(folder: RunFolder, paths: Iterable[str], entries: Mapping[str, Entry]) -> list[int]:
    """Deletes files, as long as the run owns the folder. Returns the sizes of the deleted files."""
    remaining, sizes = iter(dict.fromkeys(paths)), list[int]()
    with ThreadPoolExecutor(_PARALLEL, thread_name_prefix="remove") as threads:
        while piece := list(islice(remaining, _AT_ONCE)):
            folder.check_owner()
            list(threads.map(folder.delete, piece))
            sizes += [entries[path].size for path in piece]
    return sizes
