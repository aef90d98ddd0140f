"""Helpers for tests in which several processes scan a source, and a plan is made from their results."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from dataprep_api.dataset import run_id
from dataprep_api.resources.job import DataPrepJob
from dataprep_converter.core.errors import ConvertError
from dataprep_converter.dataset.output_folder import OutputFolder
from dataprep_converter.inputs.access import Access
from dataprep_converter.planning.scan import divide
from dataprep_converter.planning.scan_listing import NewListing
from dataprep_converter.readers import reader_class
from dataprep_converter.steps.conversion.scan_step import listing_of, name_of, run_scan_step, scanned_before
from dataprep_converter.steps.kinds import Conversion
from dataprep_converter.stores import FolderFiles
from dataprep_converter.stores.files import FileStore


def planned(job: DataPrepJob) -> tuple[bytes, str, Any]:
    """Plans a job. Returns the plan's head, the digest of its units, and the units."""
    with Conversion().plan(job.spec, Access()) as draft:
        plan: Any = draft.plan
        return plan.head.to_bytes(), plan.sha256, [vars(plan.units.unit(number)) for number in range(len(plan.units))]


def plan_or_error(job: DataPrepJob) -> Any:
    """Returns what `planned` returns, or the type and the message of the error."""
    try:
        return planned(job)
    except ConvertError as exc:
        return type(exc), str(exc)


def discovered(job: DataPrepJob) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Returns the units and the state that the reader derives from the stored scan results. Unlike `planned`, reads no records."""
    access = Access()
    access.follow(job.spec, run_id.versions(job.spec))
    access.scan = scanned_before(job.spec, access)
    units, state = reader_class(job.spec.data.kind).discover(job.spec.data.member, access).collect()
    return [vars(units.unit(number)) for number in range(len(units))], state


def begun_scan(job: DataPrepJob, *, most: int | None = None, is_listed: bool = True) -> tuple[str, int]:
    """Divides the source into at most `most` parts. The default is the number of parts that one pod would scan.

    Stores the listing, if `is_listed`. Returns the name of the scan and the number of parts. Unlike `scan_request`, this function begins a
    scan even if the source is small.
    """
    with NewListing() as listing:
        division = divide(job.spec, Access(), most=most, listing=listing)
        name = name_of(job.spec, division)
        if is_listed and division.parts:
            listing.put(OutputFolder(job.spec.output.uri, Access()), listing_of(name))
    return name, division.parts


def scan(job: DataPrepJob, parts: Iterable[int] | None = None, *, most: int | None = None, is_listed: bool = True) -> int:
    """Scans these parts in this order, by default all parts. See `begun_scan` for `most` and `is_listed`. Returns the number of parts."""
    name, count = begun_scan(job, most=most, is_listed=is_listed)
    for part in range(count) if parts is None else parts:
        run_scan_step(job.spec, Access(), part, scan=name)
    return count


def scan_files(folder: Path) -> list[Path]:
    """The files with the scan results of a job whose output is `folder/out`."""
    return sorted((folder / "out" / "_dataprep").glob("scan-*/*.json"))


def opened_files(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Returns a list that collects the name of each file that is opened from now on in a folder `in`."""
    opened: list[str] = []
    really = FileStore.open

    def counted(self: FileStore, uri: str) -> Any:
        if "/in/" in uri:
            opened.append(uri.rpartition("/in/")[2])
        return really(self, uri)

    monkeypatch.setattr(FileStore, "open", counted)
    return opened


def listings(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Returns a list that collects the URI of each folder whose files are listed from now on."""
    listed: list[str] = []
    really = FileStore.list_folders

    def noted(self: FileStore, uri: str, *, recursive: bool = True) -> Iterator[FolderFiles]:
        listed.append(uri)
        return really(self, uri, recursive=recursive)

    monkeypatch.setattr(FileStore, "list_folders", noted)
    return listed
