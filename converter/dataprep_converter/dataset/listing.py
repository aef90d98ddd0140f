"""Compares a data set with the listing of its folder."""

from collections.abc import Iterable, Sequence

from dataprep_api import names
from dataprep_api.dataset.report import Manifest, ManifestFile, ShardReport
from dataprep_converter.core.errors import BadData, NotFound, NotWhole
from dataprep_converter.dataset.output_folder import OutputFolder, RunFolder
from dataprep_converter.inputs.access import Access
from dataprep_converter.inputs.foreign_paths import absence
from dataprep_converter.stores import Entry

_SHOWN = 5


def listing_fault(manifest: Manifest, folder: OutputFolder) -> str | None:
    """Describes how the store's listing differs from the manifest. Returns None if both agree."""
    return difference(visible_sizes(manifest), dict(folder.visible()))


def is_untouched(manifest: Manifest, folder: RunFolder) -> bool:
    """Returns whether the files of a finished data set are those that the run wrote.

    Shards and record indexes are compared by pin, and all other files by size.
    """
    entries = dict(folder.visible())
    if difference(visible_sizes(manifest), entries) is not None:
        return False
    beside = folder.side_entries()
    if any(file.file not in beside or beside[file.file].size != file.size for file in manifest.metadata if names.is_hidden(file.file)):
        return False
    reports = [report for report in folder.reports(len(manifest.files)) if report is not None]
    if any(report.index is not None and beside[report.index.file].pin != report.index.pin for report in reports):
        return False
    pins = {report.file: report.pin for report in reports}
    return all(pins.get(file.file) == entries[file.file].pin for file in manifest.files)


def remove_stale_files(folder: RunFolder, *, keep: set[str]) -> list[str]:
    """Removes visible files of earlier runs that this run doesn't keep, and leftovers of unfinished uploads.

    Returns warnings about missing permissions. The plans of earlier runs are removed later, together with the metadata.
    """
    known_files = folder.known_files()
    folder.remove([path for path, _ in folder.visible() if path in known_files and path not in keep])
    return folder.sweep()


def sizes(files: Iterable[ManifestFile | ShardReport]) -> dict[str, int]:
    """Returns a dict that maps the path of each shard and each companion file to its size."""
    return {stored.file: stored.size for file in files for stored in (file, *file.companions)}


def visible_sizes(manifest: Manifest) -> dict[str, int]:
    """Returns a dict that maps the path of each visible file of a finished data set to its size."""
    return sizes(manifest.files) | {file.file: file.size for file in manifest.metadata if not names.is_hidden(file.file)}


def difference(expected: dict[str, int], entries: dict[str, Entry]) -> str | None:
    """Describes how a listing differs from the expected sizes. Returns None if both agree."""
    missing = [file for file in expected if file not in entries]
    if missing:
        return f"{len(missing)} {'file is' if len(missing) == 1 else 'files are'} missing: {abbreviate(missing)}"
    wrong = [f"{file} has {entries[file].size} bytes instead of {size}" for file, size in expected.items() if entries[file].size != size]
    if wrong:
        return abbreviate(wrong)
    foreign = [file for file in entries if file not in expected]
    return (
        f"{len(foreign)} {'file does not' if len(foreign) == 1 else 'files do not'} belong to this data set: {abbreviate(foreign)}"
        if foreign
        else None
    )


def abbreviate(items: Sequence[str]) -> str:
    """Returns text that lists the first few items and says how many more there are."""
    more = f" and {len(items) - _SHOWN} more" if len(items) > _SHOWN else ""
    return ", ".join(items[:_SHOWN]) + more


def missing_data_set(uri: str, access: Access) -> NotFound:
    """Returns the error for a URI without a finished data set. The error says whether anything else is there."""
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
