"""Compares the manifest, plan and reports of a finished data set with each other, without reading shards.

`verification.py` compares the shards with the manifest. This module detects manifests that no run could have written, such as a manifest
that was edited together with its digest in `_SUCCESS`.
"""

import hashlib
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass

from pydantic import ValidationError

from dataprep_api import names
from dataprep_api.dataset.plan import Owner, PlanHead
from dataprep_api.dataset.report import Manifest, ManifestFile, ManifestSplit, ShardReport, Success, digest_of_files
from dataprep_api.dataset.run_id import of_content
from dataprep_converter.core.errors import NotFound
from dataprep_converter.dataset.output_folder import OutputFolder, RunFolder
from dataprep_converter.dataset.stored_reports import own_reports
from dataprep_converter.inputs.access import Access

_SHARED = ("file", "split", "size", "sha256", "raw_sha256", "companions")
"""Fields that occur both in reports and in the manifest."""
_SUMMED = ("records_in", "bad", "filtered", "added")
"""Fields of the manifest that are sums over all reports."""


@dataclass(frozen=True)
class Fault:
    """A file of the data set that differs from the file that the run wrote."""

    path: str
    """The path of the file at fault, relative to the output."""
    text: str
    """A description of the fault. It names the file and, if known, the offset in this file."""


def faults(manifest: Manifest, success: Success, folder: RunFolder, access: Access) -> Iterator[Fault]:
    """Yields the contradictions between the small files of a data set."""
    yield from _success_faults(manifest, success, folder)
    yield from manifest_faults(manifest, folder)
    # Read the shards' own reports instead of bundles, because a repair continues from the shards' own reports.
    checked = _CheckedReports(manifest)
    with closing(iter(own_reports(folder, len(manifest.files)))) as reports:
        yield from checked.faults(reports)
    yield from checked.faults_of_sums()
    yield from _plan_faults(manifest, checked.plans, folder, access)
    for path, sha256 in checked.quarantine:
        yield from quarantine_faults(path, sha256, folder)


def content_is_of(run_id: str, manifest: Manifest) -> bool:
    """Returns whether the run id was computed from the spec in the manifest."""
    made_of = of_content(
        manifest.content,
        inputs_sha256=manifest.inputs_sha256,
        encoding_version=manifest.encoding_version,
        parts=manifest.parts,
    )
    return made_of == run_id


def _success_faults(manifest: Manifest, success: Success, folder: OutputFolder) -> Iterator[Fault]:
    if folder.read(names.SUCCESS) != success.to_bytes():
        yield Fault(names.SUCCESS, "_SUCCESS was edited: dataprep would have written it differently")
    if (success.run_id, success.manifest) != (manifest.run_id, names.manifest_file(manifest.run_id)):
        yield Fault(
            names.SUCCESS, f"_SUCCESS names run {success.run_id} and {success.manifest}, which is the manifest of run {manifest.run_id}"
        )
    owner = folder.read(names.OWNER)
    if owner is None or _run_of(owner, folder) != manifest.run_id:
        yield Fault(names.OWNER, f"{names.OWNER} doesn't name run {manifest.run_id}, which made this data set")


def _run_of(owner: bytes, folder: OutputFolder) -> str | None:
    try:
        return folder.parse(Owner, names.OWNER, owner).run_id
    except ValidationError:
        return None


def manifest_faults(manifest: Manifest, folder: OutputFolder) -> Iterator[Fault]:
    """Yields the contradictions within a manifest."""
    path = names.manifest_file(manifest.run_id)
    if folder.read(path) != manifest.to_bytes():
        yield Fault(path, f"{path} was edited: dataprep would have written it differently")
    if not content_is_of(manifest.run_id, manifest):
        yield Fault(path, f"{path}: run {manifest.run_id} was not made from the spec and inputs in this manifest")
    for name, stated, computed in _sums(manifest):
        if stated != computed:
            yield Fault(path, f"{path} says that {name} is {stated}, but its other entries give {computed}")


def _sums(manifest: Manifest) -> Iterator[tuple[str, object, object]]:
    """Yields (name, value in the manifest, value computed from the rest of the manifest)."""
    files = manifest.files
    yield "recordsOut", manifest.records_out, sum(file.records for file in files)
    yield "recordsIn", manifest.records_in, manifest.records_out + manifest.bad + manifest.filtered - manifest.added
    yield "size", manifest.size, sum(file.size for file in files)
    yield "files", len(files), len({file.file for file in files})
    yield "digest", manifest.digest, digest_of_files((file.sha256, file.file) for file in files)
    yield "rawDigest", manifest.raw_digest, digest_of_files((file.raw_sha256, file.file) for file in files)
    for split in manifest.splits:
        yield f"of {split.name}", _counts(split), _count([file for file in files if file.split == split.name])


def _counts(split: ManifestSplit) -> tuple[int, int, int]:
    return split.records, split.size, split.shards


def _count(files: Sequence[ManifestFile]) -> tuple[int, int, int]:
    return sum(file.records for file in files), sum(file.size for file in files), len(files)


class _CheckedReports:
    """Compares reports with the manifest, one after another. Keeps the facts about the reports that the other checks need."""

    def __init__(self, manifest: Manifest) -> None:
        self._manifest = manifest
        self._present = 0
        self._sums: Counter[str] = Counter()
        self.plans: Counter[str] = Counter()
        """The number of reports of each plan."""
        self.quarantine: list[tuple[str, str | None]] = []
        """The path and the digest of each file of bad records."""

    def faults(self, reports: Iterable[ShardReport | None]) -> Iterator[Fault]:
        """Yields the differences between these reports and the manifest."""
        run = self._manifest.run_id
        for number, (file, report) in enumerate(zip(self._manifest.files, reports, strict=True)):
            path = names.report_file(run, number)
            if report is None:
                yield Fault(path, f"{path}, the report of {file.file}, is missing or was changed")
                continue
            if differing := differences(report, file, number=number, run_id=run):
                yield Fault(path, f"{path} and the manifest differ in {', '.join(differing)} of {file.file}")
            self._present += 1
            self._sums.update({name: getattr(report, name) for name in _SUMMED})
            self.plans[report.plan_sha256] += 1
            if report.quarantine is not None:
                self.quarantine.append((report.quarantine, report.quarantine_sha256))

    def faults_of_sums(self) -> Iterator[Fault]:
        """Yields the differences between the sums over all reports and the manifest. Yields nothing if a report is missing."""
        for name in _SUMMED if self._present == len(self._manifest.files) else ():
            stated, total = getattr(self._manifest, name), self._sums[name]
            if stated != total:
                yield Fault(
                    names.manifest_file(self._manifest.run_id), f"the manifest says that {name} is {stated}, but the reports give {total}"
                )


def differences(report: ShardReport, file: ManifestFile, *, number: int, run_id: str) -> list[str]:
    """Returns the fields in which a shard's report and the manifest differ."""
    differing = [name for name in _SHARED if getattr(report, name) != getattr(file, name)]
    if report.records_out != file.records:
        differing.append("records")
    if (report.run_id, report.number) != (run_id, number):
        differing.append("run and number")
    if report.index is not None and report.index.file != names.index_file(report.file):
        differing.append("index")
    if report.quarantine is not None and not names.is_inside(report.quarantine, f"{names.quarantine_folder(run_id)}/"):
        differing.append("quarantine")
    return differing


def _plan_faults(manifest: Manifest, planned: Collection[str], folder: OutputFolder, access: Access) -> Iterator[Fault]:
    """Yields the faults of the plan. `planned` contains the digests of the plans to which the reports belong."""
    path = names.plan_file(manifest.run_id)
    content = folder.read(path)
    if content is None:
        yield Fault(path, f"{path} is missing")
        return
    try:
        head = folder.parse(PlanHead, path, content)
    except ValidationError:
        yield Fault(path, f"{path} isn't a plan")
        return
    sha256 = hashlib.sha256(content).hexdigest()
    if planned and (len(planned) > 1 or sha256 not in planned):
        yield Fault(path, f"{path} has SHA-256 {sha256}, but the reports belong to the plan {', '.join(sorted(planned))}")
        return
    for part, expected in (
        (names.units_file(manifest.run_id), head.units_sha256),
        (names.codes_file(manifest.run_id), head.codes_sha256),
    ):
        actual = _sha256(part, folder, access)
        if actual != expected:
            yield Fault(part, f"{part} is missing" if actual is None else f"{part} has SHA-256 {actual} instead of {expected}")


def _sha256(path: str, folder: OutputFolder, access: Access) -> str | None:
    """Returns the digest of a file, or None if the file is missing. The file may be large."""
    uri = folder.at(path)
    digest = hashlib.sha256()
    try:
        with access.store(uri).open(uri) as source:
            for piece in source.stream():
                digest.update(piece)
    except NotFound:
        return None
    return digest.hexdigest()


def quarantine_faults(path: str, expected: str | None, folder: OutputFolder) -> Iterator[Fault]:
    """Yields the faults found in a file that contains a shard's bad records. `expected` is the file's digest."""
    content = folder.read(path)
    if content is None:
        yield Fault(path, f"{path} is missing")
    elif (sha256 := hashlib.sha256(content).hexdigest()) != expected:
        yield Fault(path, f"{path} has SHA-256 {sha256} instead of {expected}")
