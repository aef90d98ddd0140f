"""The commit step of a script's data set: checks that every output exists and is intact, then writes reports, manifest and `_SUCCESS`.

Scripts write no reports, unlike the converter (`convert_commit.py`), so every file is read here.
"""

import hashlib
import logging
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final

from dataprep_api.dataset import run_id
from dataprep_api.dataset.messages import CommitResult
from dataprep_api.dataset.report import Manifest, ManifestFile, ManifestSplit, ShardReport, digest_of_files
from dataprep_api.spec import DataPrepJobSpec
from dataprep_converter.core.errors import BrokenRecord, InputChanged, Missing, NotWhole
from dataprep_converter.dataset import script_files
from dataprep_converter.dataset.output_folder import OutputFolder
from dataprep_converter.formats.decoder import Decoder, ReadsBlocks
from dataprep_converter.formats.registry import decoder, encoder_class
from dataprep_converter.inputs.access import Access
from dataprep_converter.sampling.plan import Plan
from dataprep_converter.steps.commit_result import Totals, result_of, tool_versions
from dataprep_converter.steps.script_job import inputs_sha256, script_of
from dataprep_converter.stores import Entry

logger = logging.getLogger(__name__)

SPLIT: Final = "all"
"""The name of the only split. A script doesn't specify how its files are divided, so there is only one split."""

_FILES_AT_ONCE: Final = 4
_SHOWN_BYTES: Final = 1500


@dataclass(frozen=True)
class _OutputFile:
    """The result of reading one output file."""

    records: int
    """The number of records, or 0 for a file that isn't read as records."""
    sha256: str
    fault: str | None


def commit(spec: DataPrepJobSpec, *, plan: Plan, access: Access) -> CommitResult:
    """Finishes the data set. Idempotent.

    Raises Missing, which names all outputs that are absent, empty or broken, and NotWhole, which names the files that no pattern in
    `script.outputs` matches.
    """
    folder = OutputFolder(spec.output.uri, access).of_run(plan.head.run_id)
    with folder.owned():
        if inputs_sha256(spec, access) != plan.head.inputs_sha256:
            raise InputChanged(
                f"{script_of(spec).input} or the code has changed since the job was planned. The script may have read the old or the new version. Run the job again."
            )
        unswept = folder.sweep()
        entries = dict(folder.visible())
        expected = script_files.matching(script_of(spec).outputs, entries)
        paths = sorted({path for matches in expected.values() for path in matches})
        bare = _manifest(spec, plan, [])
        files = _read_files(paths, folder, access, bare)
        faults = [f"{pattern} is missing" for pattern, matches in expected.items() if not matches]
        faults += [
            f"{path}{'' if file.fault.startswith(':') else ' '}{file.fault}" for path, file in files.items() if file.fault is not None
        ]
        if faults:
            raise Missing(f"The script has ended, but its outputs in {folder.uri} are not complete: {_shorten(faults)}.", uri=folder.uri)
        foreign = [path for path in sorted(entries) if path not in files]
        if foreign:
            raise NotWhole(
                f"{folder.uri} holds files that script.outputs doesn't match: {_shorten(foreign)}. Add them to script.outputs, or give "
                "them names that begin with _ or a dot.",
                uri=folder.uri,
            )
        reports = [_report(number, path, files[path], entries[path], plan) for number, path in enumerate(paths)]
        totals = Totals()
        for report in reports:
            folder.put_report(report)
            totals.add(report)
        folder.remove(list(folder.side_files()))
        manifest = _manifest(spec, plan, reports)
        success = folder.put_manifest(manifest)
        folder.put_success(success)
    return result_of(manifest, success, folder, totals=totals, warnings=unswept)


def _read_files(paths: Sequence[str], folder: OutputFolder, access: Access, manifest: Manifest) -> dict[str, _OutputFile]:
    with ThreadPoolExecutor(_FILES_AT_ONCE, thread_name_prefix="read") as threads:
        return dict(zip(paths, threads.map(lambda path: _read_file(path, folder, access, manifest), paths), strict=True))


def _read_file(path: str, folder: OutputFolder, access: Access, manifest: Manifest) -> _OutputFile:
    uri = folder.at(path)
    digest = hashlib.sha256()
    records = size = 0

    def pieces(stream: Iterator[bytes]) -> Iterator[bytes]:
        nonlocal size
        for piece in stream:
            digest.update(piece)
            size += len(piece)
            yield piece

    has_records = script_files.is_read(path, manifest)
    with access.store(uri).open(uri) as source:
        content = pieces(source.stream())
        try:
            records = _count_records(decoder(manifest), content) if has_records else 0
        except BrokenRecord as exc:
            return _OutputFile(0, "", f": {exc}")
        for _ in content:
            pass  # read to the end, because the digest also covers bytes that the decoder leaves unread
    fault = "is empty" if size == 0 else "has no records" if has_records and records == 0 else None
    return _OutputFile(records, digest.hexdigest(), fault)


def _count_records(format_: Decoder, pieces: Iterator[bytes]) -> int:
    if isinstance(format_, ReadsBlocks):
        return sum(len(block) for block in format_.blocks(pieces))
    return sum(1 for _ in format_.read(pieces))


def _report(number: int, path: str, file: _OutputFile, entry: Entry, plan: Plan) -> ShardReport:
    return ShardReport(
        run_id=plan.head.run_id,
        plan_sha256=plan.sha256,
        number=number,
        split=SPLIT,
        file=path,
        records_in=file.records,
        records_out=file.records,
        size=entry.size,
        raw_size=entry.size,
        sha256=file.sha256,
        # Use the SHA-256 of the stored bytes: only the user's program knows whether the file is compressed.
        raw_sha256=file.sha256,
        pin=entry.pin,
    )


def _manifest(spec: DataPrepJobSpec, plan: Plan, reports: Sequence[ShardReport]) -> Manifest:
    files = [ManifestFile.of(report) for report in reports]
    records, size = sum(file.records for file in files), sum(file.size for file in files)
    digest = digest_of_files((file.sha256, file.file) for file in files)
    return Manifest(
        run_id=plan.head.run_id,
        encoding_version=plan.head.encoding_version,
        parts=plan.head.parts,
        inputs_sha256=plan.head.inputs_sha256,
        content=run_id.content(spec),
        format=spec.output.format,
        compression=encoder_class(spec.output.format).compressor(spec.output).name,
        features=[],
        records_in=records,
        records_out=records,
        bad=0,
        filtered=0,
        size=size,
        splits=[ManifestSplit(name=SPLIT, records=records, size=size, shards=len(files))],
        files=files,
        digest=digest,
        raw_digest=digest,
        tools=tool_versions(),
    )


def _shorten(items: Sequence[str]) -> str:
    """Joins as many items as fit in a termination message."""
    fitting: list[str] = []
    for item in items:
        if sum(map(len, fitting)) + len(item) > _SHOWN_BYTES:
            return f"{', '.join(fitting)} and {len(items) - len(fitting)} more"
        fitting.append(item)
    return ", ".join(fitting)
