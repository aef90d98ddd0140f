"""Repairs a finished data set: rewrites broken or missing shards from the plan stored with it.

A shard is kept if its bytes match its report, and the manifest is kept if it is intact. The reports of the broken or missing shards are
deleted, and then the job continues like any unfinished job. Before any file is changed, the inputs are compared with the plan and must be
unchanged. `_SUCCESS` is absent while the data set is incomplete, and the final manifest must equal the original.
"""

import hashlib
import json
import logging
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from pydantic import ValidationError

from dataprep_api import API_VERSION, KIND, names
from dataprep_api.dataset import run_id
from dataprep_api.dataset.plan import Owner, Shard, bundles, shards
from dataprep_api.dataset.report import Manifest, ShardReport, Success
from dataprep_api.redaction import has_masked_text
from dataprep_api.resources.job import DataPrepJob
from dataprep_converter.core.closeable import closed_on_error
from dataprep_converter.core.errors import BadSpec, InputChanged, NotFound, NotWhole, OutputExists
from dataprep_converter.dataset import crosscheck
from dataprep_converter.dataset.frame_rows import engine_of
from dataprep_converter.dataset.manifest_paths import check_paths
from dataprep_converter.dataset.manifest_types import check_types
from dataprep_converter.dataset.output_folder import OutputFolder, RunFolder
from dataprep_converter.dataset.stored_reports import own_reports
from dataprep_converter.inputs.access import Access
from dataprep_converter.inputs.pinned import open_pinned
from dataprep_converter.pipeline.shard_samples import selection_of
from dataprep_converter.planning.planner import NewPlan, make_plan
from dataprep_converter.sampling.plan import Plan, WholePlan, check_versions
from dataprep_converter.steps import pool
from dataprep_converter.steps.conversion import convert_commit, convert_work
from dataprep_converter.steps.kinds import Script, kind_of
from dataprep_converter.stores import Entry, scheme_of
from dataprep_converter.stores.publish import digest_of
from dataprep_converter.stores.registry import STORES
from dataprep_converter.tools.verification import metadata_faults

logger = logging.getLogger(__name__)

_CHUNK = 65_536
_MOST_NAMED = 5


@dataclass(frozen=True)
class RepairResult:
    """The outcome of a repair."""

    manifest_sha256: str
    shards: list[str]
    """The rewritten shards."""
    other_faults: list[str]
    """Descriptions of the other faults that were repaired."""


def repair(uri: str, access: Access, *, job: DataPrepJob | None = None, workers: int = 1) -> RepairResult:
    """Makes a data set complete again. Idempotent; a call after an interruption continues the repair.

    `job` is the job that made the data set. `job` is needed if the manifest is damaged, if the job runs the user's code, or if the job has
    HDFS options. Raises NotFound if there is no data set, and BadSpec if the job is missing or didn't make the data set. Raises
    InputChanged naming the inputs that have changed since planning. Raises OutputExists for files that don't belong to the data set, and
    NotWhole if the repair yields different bytes.
    """
    access.write_to(uri)
    data_set = _DamagedDataSet(uri, access)
    job_of_run = data_set.job(job)
    kind = kind_of(job_of_run.spec)
    if isinstance(kind, Script):
        raise BadSpec(f"The data set of {uri} was made by a script; run the job again with output.overwrite: Always.")
    engine = engine_of(job_of_run.spec.data)
    if engine is not None:
        raise BadSpec(
            f"The data set of {uri} was written by {engine.name}. The rows of the {engine.frame} can't be read again, so no shard can be made "
            f"again. Write the {engine.frame} again with {engine.overwrite}."
        )
    # `access` remembers the signatures in the job's URLs and adds them again when files are read.
    access.unsigned(job_of_run.spec.data)
    other_faults = data_set.other_faults()
    data_set.folder.begin()
    plan = data_set.plan() or data_set.plan_again(job_of_run)
    head = plan.head
    if run_id.run_id(job_of_run.spec, inputs_sha256=head.inputs_sha256, parts=head.parts) != data_set.folder.run_id:
        raise BadSpec(f"The job is not the one that made run {data_set.folder.run_id}.")
    check_versions(head, job_of_run.spec, uri)
    if plan.head.code_sha256 is not None and job_of_run.spec.code is None:
        raise BadSpec("The job used the user's code (spec.code), which isn't stored with the data set; pass the job file with --job.")
    reports = list(data_set.reports(plan))
    broken = [shard for shard, report in zip(shards(plan.head), reports, strict=True) if report is None]
    copies = data_set.foreign(plan, [report for report in reports if report is not None])
    if not broken and not copies and not other_faults:
        data_set.folder.publish()
        return RepairResult(data_set.manifest_sha256(), shards=[], other_faults=[])
    access.commits.update(head.commits)
    _check_inputs(broken, plan, access)
    if broken:
        convert_work.check_keys(plan)

    folder = data_set.folder
    data_set.claim()
    folder.remove_success()
    for path in copies:
        folder.delete(path)
        other_faults.append(f"{path} was a copy of a shard and has been removed")
    # A report is stored in its own file and in a bundle. Bundles are deleted first, so that no bundle contains a report that is deleted.
    numbers = {shard.number for shard in broken}
    for bundle in bundles(head):
        if not numbers.isdisjoint(bundle):
            folder.delete(names.bundle_file(folder.run_id, bundle.start))
    for number in sorted(numbers):
        folder.delete(names.report_file(folder.run_id, number))
    if broken and _needs_generated_files(plan, folder):
        data_set.restore_generated_files(job_of_run)
    pool.run_rounds(job_of_run, kind, plan=plan, access=access, workers=workers, watch=lambda *_: None)
    result = convert_commit.commit(job_of_run.spec, plan=plan, access=access, again=data_set.manifest)
    return RepairResult(result.manifest_sha256, shards=[shard.file for shard in broken], other_faults=other_faults)


class _DamagedDataSet:
    """The remains of a damaged data set."""

    def __init__(self, uri: str, access: Access) -> None:
        self._access = access
        self.uri = uri
        folder = OutputFolder(uri, access)
        self.success = _success(folder)
        self.folder = folder.of_run(_run_id(folder, self.success))
        self._unverified: Manifest | None = None
        self.manifest: Manifest | None = self._manifest()
        """The manifest, or None if it is missing or not consistent."""

    def job(self, given_job: DataPrepJob | None) -> DataPrepJob:
        """Returns the job that made the data set, with this folder as its output.

        Raises BadSpec if the job is unknown or differs from `given_job`.
        """
        manifest = self.manifest or self._unverified
        if manifest is not None and manifest.encoding_version != run_id.ENCODING_VERSION:
            raise BadSpec(
                f"{self.uri} was made by a release that encodes records differently (encoding {manifest.encoding_version}; this release "
                f"has encoding {run_id.ENCODING_VERSION}). Repair it with dataprep {manifest.tools.get('dataprep', 'of that time')}."
            )
        content = manifest.content if manifest is not None and crosscheck.content_is_of(self.folder.run_id, manifest) else None
        if given_job is not None:
            _check_same(run_id.content(given_job.spec), content, self.folder.run_id)
            return given_job.model_copy(update={"spec": _with_output(given_job.spec, self.uri)})
        if content is None:
            raise BadSpec(
                f"The manifest of {self.uri} is damaged, so it doesn't say how the data set was made; pass the job file with --job."
            )
        if has_masked_text(content):
            raise BadSpec(
                f"The job of {self.uri} contained credentials, which aren't stored with the data set; pass the job file with --job."
            )
        if run_id.as_stored(content) != content:
            raise BadSpec(
                f"{self.uri} was made by a release that stored the job's credentials in the manifest. This release doesn't store them. "
                "Set output.overwrite: Always to make the data set again without credentials."
            )
        written_job: dict[str, Any] = {
            "apiVersion": API_VERSION,
            "kind": KIND,
            "metadata": {"name": "repair"},
            "spec": content | {"output": content["output"] | {"uri": self.uri}},
        }
        return DataPrepJob.parse(written_job)

    def plan(self) -> WholePlan | None:
        """Returns the stored plan, or None if the plan is damaged or the reports belong to another plan."""
        try:
            plan = self.folder.plan()
        except (BadSpec, NotFound, NotWhole, ValueError, OSError):
            return None
        if plan is None or plan.head.run_id != self.folder.run_id:
            return None
        return plan if self._is_of_reports(plan) else None

    def _is_of_reports(self, plan: Plan) -> bool:
        """Whether one of the reports belongs to this plan, or there are no reports."""
        plans = {report.plan_sha256 for report in own_reports(self.folder, plan.head.shards) if report is not None}
        return not plans or plan.sha256 in plans

    def plan_again(self, job: DataPrepJob) -> WholePlan:
        """Makes the plan again, stores it and returns it. Raises InputChanged if the inputs are no longer the original ones."""
        with self._plan_of_reports(job) as new:
            if new.plan.head.run_id != self.folder.run_id:
                raise InputChanged(
                    f"The plan of {self.uri} is damaged, and the inputs ({', '.join(job.spec.data.inputs())}) are no longer those of run {self.folder.run_id}."
                )
            if new.tables.intermediate is not None:
                self.folder.put_intermediate(new.tables.intermediate)
            self.folder.put_plan(new.plan, new.tables)
            return new.plan

    def _plan_of_reports(self, job: DataPrepJob) -> NewPlan:
        """Returns a new plan. Whether it contains the first round of a shuffle depends on the plan that the reports belong to.

        Plans made by earlier releases, or in clusters whose operator doesn't run the first round, don't contain it.
        """
        new = self._new_plan(job)
        with closed_on_error(new):
            if new.plan.head.shuffle_tasks is None or self._is_of_reports(new.plan):
                return new
            self._access.divides_shuffles = False
            try:
                other = self._new_plan(job)
            finally:
                self._access.divides_shuffles = True
            with closed_on_error(other):
                is_other = self._is_of_reports(other.plan)
        chosen, unused = (other, new) if is_other else (new, other)
        unused.close()
        return chosen

    def _new_plan(self, job: DataPrepJob) -> NewPlan:
        """Returns a new plan, made with the original versions of the rules.

        The manifest records these versions. If the manifest is missing, this release's versions are tried first. Each further attempt
        leaves out one more of the newest rules, in the order `joins`, `textUnits`, `int96`, `decimals`, `types`, `heif`, `structs`,
        `nulls`. The oldest versions are tried last.
        """
        manifest = self.manifest or self._unverified
        if manifest is not None:
            fault = run_id.fault_of_versions(manifest.parts, job.spec)
            if fault is not None:
                raise BadSpec(f"{self.uri} (run {self.folder.run_id}) {fault}.")
            return make_plan(job.spec, self._access, parts=manifest.parts)
        new = make_plan(job.spec, self._access, parts=run_id.versions(job.spec))
        newest = new.plan.head.parts
        newest_first = ("joins", "textUnits", "int96", "decimals", "types", "heif", "structs", "nulls")
        later = [newest_first[:count] for count in range(1, len(newest_first) + 1)]
        earlier = [*({name: version for name, version in newest.items() if name not in newer} for newer in later), {}]
        for number, parts in enumerate(earlier):
            if new.plan.head.run_id == self.folder.run_id or parts in (newest, *earlier[:number]):
                continue
            if run_id.fault_of_versions(parts, job.spec) is None:
                new.close()
                new = make_plan(job.spec, self._access, parts=parts)
        return new

    def restore_generated_files(self, job: DataPrepJob) -> None:
        """Restores files that the reader generated while planning and that the commit step removed.

        Raises InputChanged if the restored files would differ from the removed ones.
        """
        with self._new_plan(job) as new:
            if new.plan.head.run_id != self.folder.run_id or new.tables.intermediate is None:
                raise InputChanged(f"The inputs ({', '.join(job.spec.data.inputs())}) are no longer those of run {self.folder.run_id}.")
            self.folder.put_intermediate(new.tables.intermediate)

    def reports(self, plan: Plan) -> Iterator[ShardReport | None]:
        """For each shard, yields its report, or None if the report or one of the files that it describes is damaged."""
        entries = dict(self.folder.visible())
        indexes = dict(self.folder.indexes())
        for shard, report in zip(shards(plan.head), own_reports(self.folder, plan.head.shards), strict=True):
            if report is None or report.plan_sha256 != plan.sha256 or report.file != shard.file or not self._is_whole(report, entries):
                yield None
                continue
            pinned = report.model_copy(update={"pin": entries[report.file].pin})
            if report.index is not None:
                pinned = pinned.model_copy(update={"index": report.index.model_copy(update={"pin": indexes[report.index.file].pin})})
            if pinned != report:
                # The data set was copied, so its files have the same bytes but different timestamps.
                self.folder.put_report(pinned)
            yield pinned

    def foreign(self, plan: Plan, reports: Sequence[ShardReport]) -> list[str]:
        """Returns the visible files that don't belong to the data set but are copies of its shards.

        Raises OutputExists for any other file that doesn't belong to the data set.
        """
        known_files = {shard.file for shard in shards(plan.head)} | {each.file for report in reports for each in report.companions}
        known_files |= names.split_files(plan.head.extension, known_files)
        files = self.manifest.files if self.manifest is not None else []
        known_files |= {each.file for file in files for each in file.companions}
        digests = {report.sha256 for report in reports} | {file.sha256 for file in files}
        foreign = [path for path, _ in self.folder.visible() if path not in known_files]
        for path in foreign:
            if digest_of(self._access.store(self.uri), self.folder.at(path)) not in digests:
                raise OutputExists(
                    f"{self.uri} holds {path}, which does not belong to this data set; move it away.", uri=self.folder.at(path)
                )
        return foreign

    def other_faults(self) -> list[str]:
        """Returns descriptions of all faults that don't concern shards."""
        if self.success is None:
            return ["_SUCCESS is missing or was changed"]
        if self.manifest is None:
            return [f"{names.manifest_file(self.folder.run_id)} is missing or was changed"]
        faults = [*metadata_faults(self.manifest, self.folder), *crosscheck.faults(self.manifest, self.success, self.folder, self._access)]
        return [fault.text for fault in faults]

    def manifest_sha256(self) -> str:
        """Returns the SHA-256 of the existing manifest."""
        return self.success.sha256 if self.success is not None else ""

    def claim(self) -> None:
        """Claims the folder again if OWNER was damaged. Raises OutputLost if another run owns the folder."""
        try:
            owner = self.folder.owner()
        except NotWhole:
            owner = None
        if owner is None:
            self.folder.claim()
        self.folder.check_owner()

    def _manifest(self) -> Manifest | None:
        """Returns the manifest. Returns None if the manifest is inconsistent, or if this run's `_SUCCESS` names another manifest."""
        path = names.manifest_file(self.folder.run_id)
        content = self.folder.read(path)
        try:
            manifest = self.folder.parse(Manifest, path, content or b"")
        except ValidationError:
            return None
        self._unverified = manifest
        try:
            check_types(manifest, self.folder.at(path))
            check_paths(manifest, self.folder.at(path))
            manifest = self.folder.with_table(manifest)
        except NotWhole:
            return None
        is_named = self.success is not None and hashlib.sha256(content or b"").hexdigest() == self.success.sha256
        if manifest.run_id != self.folder.run_id or next(crosscheck.manifest_faults(manifest, self.folder), None) is not None:
            return None
        return manifest if is_named or self.success is None or self.success.run_id != self.folder.run_id else None

    def _is_whole(self, report: ShardReport, entries: dict[str, Entry]) -> bool:
        """Whether a shard and its companions have the bytes that the report describes."""
        if self.manifest is not None and (
            report.number >= len(self.manifest.files)
            or crosscheck.differences(report, self.manifest.files[report.number], number=report.number, run_id=self.folder.run_id)
        ):
            return False
        entry = entries.get(report.file)
        if (
            entry is None
            or entry.size != report.size
            or digest_of(self._access.store(self.uri), self.folder.at(report.file)) != report.sha256
        ):
            return False
        small = [(each.file, each.sha256) for each in report.companions]
        small += [(report.index.file, report.index.sha256)] if report.index is not None else []
        if any(hashlib.sha256(self.folder.read(file) or b"").hexdigest() != sha256 for file, sha256 in small):
            return False
        if report.quarantine is None:
            return True
        return next(crosscheck.quarantine_faults(report.quarantine, report.quarantine_sha256, self.folder), None) is None


def _success(folder: OutputFolder) -> Success | None:
    try:
        return folder.success()
    except NotWhole:
        return None


def _run_id(folder: OutputFolder, success: Success | None) -> str:
    """Returns the run that made the data set. Raises NotFound.

    The candidates are the run in `_SUCCESS`, the run in OWNER, and all other runs, in this order. The first candidate with a plan or a
    manifest made the data set.
    """
    run_ids = [success.run_id] if success is not None else []
    owner = folder.read(names.OWNER)
    try:
        run_ids += [folder.parse(Owner, names.OWNER, owner).run_id] if owner is not None else []
    except ValidationError:
        logger.warning("%s is damaged", folder.at(names.OWNER))
    runs = folder.runs()
    for each in [*run_ids, *runs]:
        if each in runs:
            return each
    raise NotFound(f"{folder.uri} holds no files of a dataprep run: there is no data set to repair.", uri=folder.uri)


def _with_output(spec: Any, uri: str) -> Any:
    """Returns the spec with this output URI."""
    return spec.model_copy(update={"output": spec.output.model_copy(update={"uri": uri})})


def _check_same(given_content: dict[str, Any], known_content: dict[str, Any] | None, run: str) -> None:
    """Raises BadSpec naming the fields in which the given job differs from the run's job."""
    if known_content is None:
        return
    differing = sorted(
        field for field in {*given_content, *known_content} if _plain(given_content.get(field)) != _plain(known_content.get(field))
    )
    if differing:
        raise BadSpec(f"The job is not the one that made run {run}: {', '.join(differing)} differ.")


def _plain(value: Any) -> Any:
    return json.loads(json.dumps(value))


def _needs_generated_files(plan: WholePlan, folder: RunFolder) -> bool:
    generated = folder.at(names.intermediate_folder(folder.run_id))
    return any(str(uri).startswith(generated) for uri in plan.units.table["uri"].unique().to_pylist())


def _check_inputs(broken: Iterable[Shard], plan: Plan, access: Access) -> None:
    """Raises InputChanged naming the inputs of these shards that have changed since they were planned."""
    checked: set[str] = set()
    changed_uris: list[str] = []
    for shard in broken:
        for index in _units_of(shard, plan):
            unit = plan.units.unit(index)
            if unit.uri in checked or scheme_of(unit.uri) not in STORES or f"/{names.intermediate_folder(plan.head.run_id)}/" in unit.uri:
                continue  # databases and generated files are checked when they are read
            checked.add(unit.uri)
            try:
                open_pinned(access.store(unit.uri), unit.uri, unit.pin).close()
            except InputChanged:
                changed_uris.append(unit.uri)
    if changed_uris:
        more = f" and {len(changed_uris) - _MOST_NAMED} more" if len(changed_uris) > _MOST_NAMED else ""
        raise InputChanged(
            f"{len(changed_uris)} input{'s' * (len(changed_uris) != 1)} of the broken shards changed or disappeared after planning: "
            f"{', '.join(changed_uris[:_MOST_NAMED])}{more}. "
            "The data set was not changed. Restore the inputs, or run the job again as a new one.",
            uri=changed_uris[0],
        )


def _units_of(shard: Shard, plan: Plan) -> list[int]:
    selection = selection_of(shard, plan)
    units: set[int] = set()
    for samples in selection.chunks(shard.first, shard.records, size=_CHUNK):
        index, _ = plan.units.locate(samples)
        units.update(np.unique(index).tolist())
    return sorted(units)
