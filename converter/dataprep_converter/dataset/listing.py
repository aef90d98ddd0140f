"""Compares a data set with the listing of its folder."""

from collections.abc import Collection
from contextlib import closing

from dataprep_api import names
from dataprep_api.dataset.report import Manifest
from dataprep_converter.core.errors import BadData, NotFound, NotWhole
from dataprep_converter.dataset.expected_files import ExpectedFiles
from dataprep_converter.dataset.manifest_table import listed_metadata
from dataprep_converter.dataset.output_folder import OutputFolder, RunFolder
from dataprep_converter.dataset.stored_reports import StoredReports
from dataprep_converter.inputs.access import Access
from dataprep_converter.inputs.foreign_paths import absence


def listing_fault(manifest: Manifest, folder: OutputFolder) -> str | None:
    """Describes how the store's listing differs from the manifest. Returns None if they agree."""
    expected = ExpectedFiles.of_manifest(manifest)
    return expected.fault(expected.compared(folder.visible()))


def is_untouched(manifest: Manifest, folder: RunFolder) -> bool:
    """Returns whether the files of a finished data set are unchanged since the run wrote them.

    Shards and record indexes are compared by pin, and all other files by size.
    """
    reports = StoredReports.of_data_set(folder, len(manifest.files))
    different = _different_shards(manifest, folder, reports)
    if different and reports.bundled:
        # These shards may have been made again after their reports were bundled, so compare them with their own reports.
        different = _different_shards(manifest, folder, StoredReports.of_data_set(folder, len(manifest.files), own=different))
    return different is not None and not different


def _different_shards(manifest: Manifest, folder: RunFolder, reports: StoredReports) -> set[int] | None:
    """Returns the numbers of the shards that have changed since their reports were written. Returns None if the data set has changed in any
    other way."""
    files, beside = ExpectedFiles(len(manifest.files)), ExpectedFiles(len(manifest.files))
    with closing(iter(reports)) as found_reports:
        for number, (file, report) in enumerate(zip(manifest.files, found_reports, strict=True)):
            if report is None or report.file != file.file:
                return None
            files.add_shard(number, file, pin=report.pin)
            if report.index is not None:
                beside.add(report.index.file, report.index.size, pin=report.index.pin, shard=number)
    others = [metadata for metadata in listed_metadata(manifest) if not metadata.file.startswith(f"{names.INDEX}/")]
    if len(manifest.metadata) - len(others) != len(beside):
        return None
    for metadata in others:
        (beside if names.is_hidden(metadata.file) else files).add(metadata.file, metadata.size)
    different: set[int] = set()
    for expected, found in (
        (files, files.compared(folder.visible())),
        (beside, beside.compared(folder.side_entries(), ignores_others=True)),
    ):
        if found.missing or found.foreign:
            return None
        different.update(expected.shard(number) for number in (*found.sizes, *found.changed))
    return None if -1 in different else different


def remove_stale_files(folder: RunFolder, *, keep: ExpectedFiles, ours: Collection[str] = ()) -> list[str]:
    """Removes visible files of earlier runs, except the files in `keep` and `ours`. Also removes leftovers of unfinished uploads.

    Returns warnings about missing permissions. The plans of earlier runs are removed later, together with the metadata.
    """
    others = [path for path in keep.others(path for path, _ in folder.visible()) if path not in ours]
    known_files = folder.known_files(others)
    folder.remove([path for path in others if path in known_files])
    return folder.sweep()


def missing_data_set(uri: str, access: Access) -> NotFound:
    """Returns the error for a URI without a finished data set. The error states whether the folder contains anything else."""
    store = access.store(uri)
    if store.stat(uri) is None and next(iter(store.list(uri)), None) is None:
        return NotFound(f"{uri} doesn't exist: there is no such file, and no file below it{absence(uri)}.", uri=uri)
    return NotFound(f"{uri} has no _SUCCESS: there is no finished data set. For raw data, run dataprep infer.", uri=uri)


def load_manifest(uri: str, access: Access) -> Manifest:
    """Returns the manifest of a finished data set.

    Raises NotFound if there is no finished data set, and BadData if the manifest was changed.
    """
    folder = OutputFolder(uri, access)
    try:
        success = folder.success()
        if success is None:
            raise missing_data_set(uri, access)
        return folder.manifest(success)
    except NotWhole as exc:
        raise BadData(f"{exc} See dataprep verify.", uri=uri) from exc
