"""Detects that a data set was replaced while it was read. A data frame must not mix the records of two data sets."""

from collections.abc import Iterable

from dataprep_api.dataset.report import ManifestFile
from dataprep_converter.core.errors import BadData, ConvertError, NewerFormat, NotWhole
from dataprep_converter.dataset.output_folder import OutputFolder
from dataprep_converter.inputs.access import Access


def check_not_replaced(uri: str, run_id: str, files: Iterable[ManifestFile], access: Access, cause: ConvertError | None = None) -> None:
    """Raises BadData unless the data set at the URI still contains these files, which this run has written.

    Called after the files have been read, or after an error, which is `cause`. The data set may have been extended, because an extension
    keeps all earlier files.
    """
    folder = OutputFolder(uri, access)
    try:
        success = folder.success()
        if success is None:
            is_kept = _is_being_extended(folder, run_id)
        else:
            is_kept = success.run_id == run_id or _has_all(folder.manifest(success).files, files)
    except (NotWhole, NewerFormat) as exc:
        # Another run's manifest may be removed while this function reads it.
        is_kept, cause = False, cause or exc
    if not is_kept:
        raise BadData(f"{uri} was replaced while it was read. Read it again.", uri=uri) from cause


def _has_all(there: Iterable[ManifestFile], files: Iterable[ManifestFile]) -> bool:
    return {(file.file, file.sha256) for file in files} <= {(file.file, file.sha256) for file in there}


def _is_being_extended(folder: OutputFolder, run_id: str) -> bool:
    """Returns whether the run that owns the folder is this run, or a run that extends this run's data set."""
    owner = folder.owner()
    if owner is None or owner.run_id == run_id:
        return owner is not None
    found = folder.of_run(owner.run_id).plan_head()
    return found is not None and any(earlier.run_id == run_id for earlier in found[0].extends)
