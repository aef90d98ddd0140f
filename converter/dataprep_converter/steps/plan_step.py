"""The plan step: checks the stores, plans the job and, unless the finished data set already exists, claims the output folder."""

import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from dataprep_api import names
from dataprep_api.dataset.messages import PlanResult
from dataprep_api.dataset.plan import Maker, Owner, PlanHead, shards
from dataprep_api.dataset.report import Manifest, Success
from dataprep_api.resources.job import DataPrepJob
from dataprep_api.resources.status import MAX_LABELS, LabelStatus, SplitStatus
from dataprep_api.spec import DataPrepJobSpec
from dataprep_converter.core.errors import ConvertError, NotWhole, OutputExists
from dataprep_converter.dataset.listing import is_untouched
from dataprep_converter.dataset.output_folder import OutputFolder, RunFolder
from dataprep_converter.inputs.access import Access
from dataprep_converter.inputs.archive_uris import split_archive_uri
from dataprep_converter.runtime import allocator, makers, plugins
from dataprep_converter.runtime.temporary import free_bytes_at
from dataprep_converter.sampling.plan import Plan
from dataprep_converter.steps.commit_result import result_of
from dataprep_converter.steps.draft import Draft
from dataprep_converter.steps.kinds import Kind, kind_of
from dataprep_converter.steps.preflight import preflight
from dataprep_converter.stores import scheme_of
from dataprep_converter.stores.local_paths import path_of
from dataprep_converter.stores.read_only import ReadOnlyStore
from dataprep_converter.stores.registry import READ_ONLY

logger = logging.getLogger(__name__)

_CHOICES: Final = "Set output.overwrite to IfChanged or Always, or choose another output.uri."


@dataclass(frozen=True)
class PlannedRun:
    """The result of the plan step."""

    plan: Plan
    result: PlanResult
    """`result.reused` is set when the finished data set already exists."""
    is_new: bool = False
    """True if this process stored the plan itself, or starts again from the plan of a data set that was already finished. If False, an
    earlier process may have died during the work."""
    size: int | None = None
    """Size in bytes of the data that the work step reads or writes, whichever is larger, or None if unknown."""


def run_plan_step(
    job: DataPrepJob,
    access: Access,
    *,
    maker: Maker | None = None,
    pods: str | None = None,
    check: Callable[..., list[str]] = preflight,
    scan: Callable[[], None] = lambda: None,
) -> PlannedRun:
    """Plans the job and claims its output folder. Idempotent: a second call uses the first call's plan.

    `maker` is the process that does all steps of the job, or None if other processes do the work. `pods` is the name prefix of the job's
    pods, if one of them may have finished the data set although the pod's result was never read. `scan` is called after the stores have
    been checked and before the source is read.
    """
    allocator.tune_allocator()
    warnings = check_stores(job, access, check=check)
    scan()
    with kind_of(job.spec).plan(job.spec, access) as draft:
        try:
            planned = take_output(draft, warnings, job=job.metadata.name, maker=maker, pods=pods)
        except OutputExists:
            # The job can't succeed. After other errors, a retry uses the results of the scan again.
            draft.remove_scan()
            raise
        draft.remove_scan()
        return planned


def check_stores(job: DataPrepJob, access: Access, *, check: Callable[..., list[str]] = preflight) -> list[str]:
    """Checks the places of the job and the permissions at its stores. Returns warnings."""
    kind = kind_of(job.spec)
    _check_places(job.spec, kind, access)
    return check(access, output_uri=job.spec.output.uri, source_uris=kind.source_uris(job.spec))


def take_output(
    draft: Draft,
    warnings: Sequence[str],
    *,
    job: str,
    maker: Maker | None,
    pods: str | None = None,
    before_change: Callable[[], None] = lambda: None,
) -> PlannedRun:
    """Claims the output folder and stores the plan in it, unless the folder already contains the finished data set.

    `before_change` is called after the folder has been claimed and before `_SUCCESS` is removed.
    """
    folder = OutputFolder(draft.spec.output.uri, draft.access).of_run(draft.plan.head.run_id)
    success = folder.success()
    if success is not None:
        # An earlier commit may have ended before the finished data set was published.
        folder.publish()
    draft.check_output(folder)

    own = _finished_by(pods, folder) if pods is not None and success is not None and success.run_id == folder.run_id else None
    if own is not None and success is not None and _is_whole(success, folder):
        logger.info("an earlier pod of this job has finished the data set in %s; the next steps check it", folder.uri)
        return PlannedRun(plan=own, result=_result(draft, own, folder, warnings=warnings))
    # If files of this job's own data set are missing or have changed, they are made again, like those of an unfinished run.
    existing = success if own is None else None

    manifest = draft.finished(existing, folder) if existing is not None else None
    if existing is not None and manifest is not None:
        logger.info("output %s holds a finished data set of this run, which is reused", folder.uri)
        return PlannedRun(plan=draft.plan, result=_result(draft, draft.plan, folder, warnings=warnings, reused=(manifest, existing)))

    if existing is not None:
        warnings = [*warnings, *_rule_warnings(draft, folder, existing)]
    draft.check_base(existing)
    warnings = [*warnings, *_refuse_others(draft, folder, existing, job=job)]
    folder.begin()
    draft.take_over(folder)
    folder.claim(maker)
    before_change()
    # Remove the `_SUCCESS` that existed when the job was planned, and the `_SUCCESS` of any other run. Keep a new `_SUCCESS` of this run,
    # because another process may have finished this run while this process was suspended.
    current = folder.success()
    if current is not None and (current == success or current.run_id != folder.run_id):
        folder.remove_success()
    plan = draft.store(folder)
    warnings = [*warnings, *_space_warnings(draft, plan)]
    # If this run had been finished before, this process counts as new, because no earlier process has died while working on the run. Later
    # processes find no `_SUCCESS`, so they don't count as new.
    begins_again = current is not None and current == success and current.run_id == folder.run_id
    is_new = plan is draft.plan or begins_again
    return PlannedRun(plan=plan, result=_result(draft, plan, folder, warnings=warnings), is_new=is_new, size=draft.size)


def _finished_by(pods: str, folder: RunFolder) -> Plan | None:
    """Returns the plan of this run's finished data set if pods with this name prefix made the data set, otherwise None.

    The rule for existing data sets (`overwrite`) doesn't apply to a data set that these pods made, because it is this job's own.
    """
    report = folder.report(0)
    if report is None or not report.attempt.startswith(pods):
        return None
    try:
        return folder.plan()
    except NotWhole as exc:
        logger.warning("%s", exc)
        return None


def _is_whole(success: Success, folder: RunFolder) -> bool:
    """Whether the files of the finished data set are unchanged and the run still owns the folder. The next steps require both."""
    try:
        owner = folder.owner()
        return owner is not None and owner.run_id == folder.run_id and is_untouched(folder.manifest(success), folder)
    except NotWhole as exc:
        logger.warning("%s", exc)
        return False


def _space_warnings(draft: Draft, plan: Plan) -> Iterator[str]:
    """Yields a warning if the output's disk may have too little space for the records of a shuffle's first round. Only for local disks."""
    head, uri = plan.head, draft.spec.output.uri
    if draft.shuffle_tasks(plan) is None or scheme_of(uri) not in ("", "file"):
        return
    free = free_bytes_at(path_of(uri))
    needed = head.bytes_in + (draft.size or 0)
    if free is not None and free < needed:
        yield (
            f"the disk of {uri} has {free >> 20:,} MiB free. The data set and, until it is finished, the records of its shuffle may need "
            f"{needed >> 20:,} MiB"
        )


def _rule_warnings(draft: Draft, folder: RunFolder, success: Success) -> Iterator[str]:
    """Yields a warning for each new rule that will make the new data set differ from the finished data set in the folder.

    The new rules are about records with nulls, struct fields, the types of times and decimals, the comparison of decimals, and INT96 times.
    """
    parts = draft.plan.head.parts
    has_new_nulls = draft.spec.nulls is None and "nulls" in parts
    if not has_new_nulls and not {"structs", "types", "decimals", "int96"} & parts.keys():
        return
    try:
        manifest = folder.manifest(success)
    except NotWhole:
        return
    if "structs" in parts and "structs" not in manifest.parts:
        yield (
            f"the data set of run {manifest.run_id}, which this job replaces, may have the fields of structs as columns. "
            "Now the structs are columns; list the fields in features to have them as before"
        )
    if "types" in parts and "types" not in manifest.parts:
        yield (
            f"the data set of run {manifest.run_id}, which this job replaces, may have numbers in place of times and decimals. "
            "Now these keep their types; set dtype (int64 for times, float64 for decimals) in features to have numbers as before"
        )
    if "decimals" in parts and "decimals" not in manifest.parts:
        yield (
            f"the data set of run {manifest.run_id}, which this job replaces, may lack records or have additional ones, because decimals "
            "were compared as float64. Now all their digits are compared"
        )
    if "int96" in parts and "int96" not in manifest.parts:
        yield (
            f"if the data set of run {manifest.run_id}, which this job replaces, has times of INT96, they are in nanoseconds, and those "
            "before 1677-09-21 or after 2262-04-11 are wrong. Now they are in microseconds"
        )
    if has_new_nulls and "nulls" not in manifest.parts:
        yield (
            f"the data set of run {manifest.run_id}, which this job replaces, was made without the records that have nulls. "
            "Now these records are kept if the format has nulls; set nulls: Bad to leave them out as before"
        )


def dry_run(job: DataPrepJob, access: Access) -> PlanResult:
    """Returns the plan's figures without writing anything."""
    with drafted(job, access) as draft:
        return figures(draft)


def drafted(job: DataPrepJob, access: Access) -> Draft:
    """Plans the job without writing anything."""
    kind = kind_of(job.spec)
    _check_places(job.spec, kind, access)
    return kind.plan(job.spec, access)


def _check_places(spec: DataPrepJobSpec, kind: Kind, access: Access) -> None:
    """Raises BadSpec when the job would write to a read-only store or to a place that it reads from. Sends no requests to stores."""
    uri = spec.output.uri
    if scheme_of(uri) in READ_ONLY or split_archive_uri(uri) is not None:
        store = access.store(uri)
        if isinstance(store, ReadOnlyStore):
            raise store.refusal(uri)
    kind.check_overlaps(spec, access)
    access.output = uri
    access.write_to(uri)


def figures(draft: Draft) -> PlanResult:
    """Returns the figures of a plan before anything is written."""
    return _result(draft, draft.plan, OutputFolder(draft.spec.output.uri, draft.access))


def fault_of_output(draft: Draft, *, job: str) -> ConvertError | None:
    """Returns the error that the job would raise because of its output folder, or None. Writes nothing."""
    try:
        folder = OutputFolder(draft.spec.output.uri, draft.access).of_run(draft.plan.head.run_id)
        success = folder.success()
        if success is None or draft.finished(success, folder) is None:
            _refuse_others(draft, folder, success, job=job)
    except ConvertError as exc:
        return exc
    return None


def _refuse_others(draft: Draft, folder: RunFolder, success: Success | None, *, job: str) -> list[str]:
    """Raises OutputExists when the folder contains files that must not be replaced. Returns warnings about what is replaced.

    An unfinished run of this job can always continue. Another run of this job is replaced if its processes are known to have ended.
    """
    may_replace = draft.spec.output.overwrite != "Never"
    warnings: list[str] = []
    try:
        owner = folder.owner()
    except NotWhole as exc:
        other_runs = [run for run in folder.runs() if run != folder.run_id]
        if other_runs and not may_replace:
            raise OutputExists(
                f"{exc} It holds files of the run {other_runs[0]}, and overwrite is Never. {_CHOICES}",
                uri=exc.uri,
            ) from None
        owner = None
    ours = owner is not None and owner.run_id in (folder.run_id, draft.predecessor)
    if not may_replace:
        if success is not None:
            raise _finished_data_set(folder, success)
        if owner is not None and not ours:
            if not _is_abandoned(owner, job):
                raise OutputExists(
                    f"{folder.uri} belongs to the unfinished run {owner.run_id}{_whose(owner, job)}; overwrite is Never. {_CHOICES}",
                    uri=folder.uri,
                )
            warnings.append(
                f"the unfinished run {owner.run_id} of this job is replaced: its process has ended, and the job or its inputs have changed"
            )
    _refuse_foreign_files(draft, folder)
    return warnings


def refuse_finished(spec: DataPrepJobSpec, access: Access) -> None:
    """Raises OutputExists when the folder contains a finished data set and `overwrite` is Never.

    Call this function before reading much for the plan, but not if a pod of this job may have finished the data set.
    """
    folder = OutputFolder(spec.output.uri, access)
    if spec.output.overwrite == "Never" and (success := folder.success()) is not None:
        raise _finished_data_set(folder, success)


def _finished_data_set(folder: OutputFolder, success: Success) -> OutputExists:
    return OutputExists(
        f"{folder.uri} holds the finished data set of run {success.run_id}; overwrite is Never. {_CHOICES}",
        uri=folder.uri,
    )


def _is_abandoned(owner: Owner, job: str) -> bool:
    """Whether all processes that worked on the run are known to have ended, and to have worked on this job for this user."""
    return bool(owner.makers) and all(makers.is_of(maker, job) and makers.has_ended(maker) for maker in owner.makers)


def _whose(owner: Owner, job: str) -> str:
    """Returns a phrase that says who is working on an unfinished run, if OWNER records this."""
    maker = next((each for each in owner.makers if not makers.has_ended(each)), None)
    if maker is not None:
        return f" of the job {maker.job}, whose process {maker.pid} on {maker.host} might still be running"
    other = next((each for each in owner.makers if not makers.is_of(each, job)), None)
    return f" of the job {other.job} of the user {other.user}" if other is not None else ""


def _refuse_foreign_files(draft: Draft, folder: RunFolder) -> None:
    """Raises OutputExists when the folder contains a file that no run has planned."""
    visible_files = [path for path, _ in folder.visible()]
    known_files = folder.known_files(visible_files)
    if folder.run_id in folder.runs():
        # The stored plan may be damaged, and then the files that it lists are unknown.
        planned_files = {shard.file for shard in shards(draft.plan.head)}
        known_files |= planned_files | names.split_files(draft.plan.head.extension, planned_files)
    for path in visible_files:
        if path not in known_files:
            raise OutputExists(
                f"{folder.uri} contains {path}, which no dataprep run planned there; it is never overwritten. "
                "Move it away or choose another output.uri.",
                uri=folder.uri,
            )


def _split_status(name: str, head: PlanHead) -> SplitStatus:
    """Returns a split's totals over all runs of the data set."""
    parts = [split for split in head.splits if split.name == name]
    expected = [split.expected for split in parts if split.expected is not None]
    tolerances = [split.tolerance for split in parts if split.tolerance is not None]
    return SplitStatus(
        name=name,
        records=sum(split.records for split in parts),
        shards=sum(split.shards for split in parts),
        expected=sum(expected) if len(expected) == len(parts) else None,
        tolerance=sum(tolerances) if len(tolerances) == len(parts) else None,
    )


def _result(
    draft: Draft,
    plan: Plan,
    folder: OutputFolder,
    *,
    warnings: Sequence[str] = (),
    reused: tuple[Manifest, Success] | None = None,
) -> PlanResult:
    head = plan.head
    return PlanResult(
        run_id=head.run_id,
        plan_sha256=plan.sha256,
        plan_uri=folder.at(names.plan_file(head.run_id)),
        tasks=head.tasks,
        shuffle_tasks=draft.shuffle_tasks(plan),
        shards=head.shards,
        records=sum(split.records for split in head.splits),
        bytes_in=head.bytes_in,
        ignored=head.ignored,
        splits=[_split_status(name, head) for name in head.split_names],
        labels=[
            LabelStatus(feature=feature, num_classes=len(class_names), classes=[name[:256] for name in class_names[:MAX_LABELS]])
            for feature, class_names in sorted(draft.classes.items())[:8]
        ],
        code_commit=plugins.commit(),
        reused=reused is not None,
        commit=result_of(*reused, folder) if reused else None,
        warnings=[warning[:512] for warning in [*warnings, *head.warnings][:10]],
    )
