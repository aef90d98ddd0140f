"""The plan step: check the stores, plan, and take the output folder, or find that there is nothing to do."""

import logging
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from pydantic import ValidationError

from dataprep_api import names
from dataprep_api.dataset import run_id
from dataprep_api.dataset.messages import PlanResult
from dataprep_api.dataset.plan import PlanHead, shards
from dataprep_api.dataset.report import Manifest, Success
from dataprep_api.formats import format_rules
from dataprep_api.resources.job import DataPrepJob
from dataprep_api.resources.status import MAX_LABELS, LabelStatus, SplitStatus
from dataprep_api.spec import DataPrepJobSpec, Source
from dataprep_converter.core.errors import NotWhole, OutputExists
from dataprep_converter.dataset import overlaps
from dataprep_converter.dataset.listing import is_untouched
from dataprep_converter.dataset.output_folder import OutputFolder, RunFolder
from dataprep_converter.formats.registry import encoder_class
from dataprep_converter.inputs.access import Access
from dataprep_converter.inputs.archive_uris import archive_of
from dataprep_converter.planning.planner import make_plan
from dataprep_converter.records.feature import FeatureSpec
from dataprep_converter.runtime import allocator, plugins
from dataprep_converter.sampling.plan import Plan, Tables
from dataprep_converter.steps import copy_job, extend, script_job, table_output
from dataprep_converter.steps.commit_result import result_of
from dataprep_converter.steps.copy_job import Original
from dataprep_converter.steps.extend import Extended
from dataprep_converter.steps.preflight import preflight
from dataprep_converter.stores import scheme_of

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Prepared:
    """What the plan step found."""

    plan: Plan
    result: PlanResult
    """`result.reused` says that the data set is there already."""


@dataclass(frozen=True)
class _Intended:
    """What the job is about to make."""

    plan: Plan
    classes: Mapping[str, Sequence[str]]
    """Class names by feature."""
    tables: Tables | None = None
    """Of the plan; None for a copy, which takes them as they are."""
    extended: Extended | None = None
    original: Original | None = None
    features: Sequence[FeatureSpec] = ()
    begun: str | None = None
    """The unfinished run of this very job that another release began by other rules: it goes on, or is replaced where these are gone."""


def run_plan_step(job: DataPrepJob, access: Access, *, check: Callable[..., list[str]] = preflight) -> Prepared:
    """Plans the job and takes its output folder. Idempotent: a second call finds the first one's plan."""
    allocator.tune_allocator()
    spec = job.spec
    _refuse_overlaps(spec, access)
    warnings = check(access, output_uri=spec.output.uri, source_uris=_given(spec))
    intended = _intended(spec, access)
    fresh, extended, original = intended.plan, intended.extended, intended.original
    folder = OutputFolder(spec.output.uri, access).of_run(fresh.head.run_id)
    success = folder.success()
    table_output.check(spec, fresh, intended.features, folder, access)

    if success is not None and _may_reuse(spec, success, folder, original):
        manifest = folder.manifest(success)
        if is_untouched(manifest, folder) and table_output.is_untouched(spec, folder, access):
            logger.info("output %s holds a finished data set of this very run: reused", folder.uri)
            return Prepared(plan=fresh, result=_result(fresh, intended.classes, folder, warnings=warnings, reused=(manifest, success)))

    if extended is not None:
        extend.check_whole(extended, success)
    _refuse_others(
        folder,
        success,
        planned={shard.file for shard in shards(fresh.head)},
        extension=fresh.head.extension,
        may_replace=spec.output.overwrite != "Never",
        begun=intended.begun,
    )
    if extended is not None and intended.tables is not None:
        extend.take_over(fresh, intended.tables, extended, folder, access)
        folder.claim()
    # Not one that another plan step's run has set since: this process may have slept.
    if success is not None and folder.success() == success:
        folder.remove_success()
    folder.claim()
    if spec.script is not None:
        # What an earlier run left must not pass for what this one makes.
        for path in sorted(folder.known_files() & {path for path, _ in folder.visible()}):
            folder.delete(path)
    plan = _stored(intended, spec, folder, access)
    table_output.begin(spec, folder, access)
    return Prepared(plan=plan, result=_result(plan, intended.classes, folder, warnings=warnings))


def dry_run(job: DataPrepJob, access: Access) -> PlanResult:
    """The plan's figures; nothing is written."""
    _refuse_overlaps(job.spec, access)
    intended = _intended(job.spec, access)
    folder = OutputFolder(job.spec.output.uri, access).of_run(intended.plan.head.run_id)
    return _result(intended.plan, intended.classes, folder)


def _intended(spec: DataPrepJobSpec, access: Access) -> _Intended:
    if spec.script is not None:
        plan, tables = script_job.plan(spec, access)
        return _Intended(plan, {}, tables)
    if spec.output.format == copy_job.FORMAT:
        original = copy_job.original(spec, access)
        return _Intended(original.plan, original.manifest.labels, original=original)
    extended = extend.find(spec, access) if spec.output.overwrite == "Extend" else None
    new = make_plan(spec, access) if extended is None else extend.plan(spec, access, extended)
    begun = _begun_by_other_rules(spec, new.plan.head, access)
    if begun is not None and run_id.fault_of_versions(begun.parts, spec) is None:
        new = make_plan(spec, access, parts=begun.parts)
    return _Intended(
        new.plan,
        new.pipeline.class_names(),
        new.tables,
        extended,
        features=new.pipeline.features,
        begun=begun.run_id if begun is not None else None,
    )


def _begun_by_other_rules(spec: DataPrepJobSpec, fresh: PlanHead, access: Access) -> PlanHead | None:
    """The plan of this very job that another release began and did not finish, if it did so by other versions of the rules."""
    folder = OutputFolder(spec.output.uri, access).of_run(fresh.run_id)
    try:
        owner = folder.owner()
    except NotWhole:
        return None
    if owner is None or owner.run_id == fresh.run_id or folder.success() is not None:
        return None
    path = names.plan_file(owner.run_id)
    written = folder.read(path)
    try:
        found = folder.parsed(PlanHead, path, written or b"")
    except ValidationError:
        return None
    same = run_id.run_id(spec, inputs_sha256=fresh.inputs_sha256, parts=found.parts)
    return found if found.run_id == owner.run_id == same else None


def _may_reuse(spec: DataPrepJobSpec, success: Success, folder: RunFolder, original: Original | None) -> bool:
    """Whether the finished data set that is there is the one that is wanted, if it is still whole. A copy can't be another one, whatever the policy."""
    if original is not None:
        return success == original.success and spec.output.overwrite != "Always"
    return success.run_id == folder.run_id and spec.output.overwrite in ("IfChanged", "Extend")


def _stored(intended: _Intended, spec: DataPrepJobSpec, folder: RunFolder, access: Access) -> Plan:
    """The plan in the folder: one that is there already, or this one."""
    if intended.tables is not None and intended.tables.made is not None:
        folder.put_made(intended.tables.made)
    try:
        plan = folder.plan()
    except NotWhole as exc:
        logger.warning("%s", exc)
        plan = None
    if plan is None and intended.original is not None:
        copy_job.put_plan(spec, intended.original, folder, access)
    elif plan is None and intended.tables is not None:
        folder.put_plan(intended.plan, intended.tables)
    return plan or intended.plan


def _refuse_overlaps(spec: DataPrepJobSpec, access: Access) -> None:
    """Raises BadSpec when the job would write where it reads; from here on also when a listing finds that."""
    table = spec.output.table.uri if spec.output.table is not None else None
    if spec.script is None:
        shallow = _shallow(spec.data)
        whole = [uri for uri in spec.data.inputs() if uri not in shallow]
        overlaps.check(whole, spec.output.uri, access, table=table, shallow=shallow, endings=_endings(spec))
    elif spec.script.input is not None:
        overlaps.check([spec.script.input], spec.output.uri, access)
    access.output = spec.output.uri


def _endings(spec: DataPrepJobSpec) -> list[str] | None:
    """How the names of the visible files end that the job writes; None where they may end in any way."""
    output = spec.output
    if output.format == "copy":
        return None
    template = output.template or names.file_name_template(None, shards=2, format_=output.format, several_splits=True)
    extension = encoder_class(output.format).extension(output)
    ending = template.rpartition("{ext}")[2] if "{ext}" in template else None
    if ending is None or "{" in ending or "/" in ending:
        return None
    of_splits = format_rules(output.format).split_file
    return [f"{extension}{ending}", *([of_splits.name] if of_splits is not None else [])]


def _shallow(source: Source) -> list[str]:
    """Folders of which not all is read that lies below them: the one that paths of a list are relative to, and those of images without their folders."""
    images = source.images
    if images is None:
        return []
    if images.listed is not None:
        return [images.listed.root] if images.listed.root else []
    return [] if images.recursive else list(images.uris or [])


def _given(spec: DataPrepJobSpec) -> list[str]:
    """What has to be there."""
    if spec.script is None:
        return source_uris(spec.data)
    return [spec.script.input] if spec.script.input is not None else []


def source_uris(source: Source) -> list[str]:
    """Every URI that the source names; of a file within an archive, the archive."""
    return [_folder_of_glob(archive_of(uri)) for uri in source.inputs()]


def _folder_of_glob(uri: str) -> str:
    """The part of a glob that names one folder; any other URI as it is, and a web address, whose question mark begins its query."""
    if scheme_of(uri) in ("http", "https"):
        return uri
    at = min((uri.index(sign) for sign in "*?[" if sign in uri), default=None)
    return uri if at is None else uri[:at].rpartition("/")[0]


def _refuse_others(
    folder: RunFolder, success: Success | None, *, planned: AbstractSet[str], extension: str, may_replace: bool, begun: str | None
) -> None:
    """Raises OutputExists when the folder holds what may not be replaced. An unfinished folder of this very run may always go on."""
    try:
        owner = folder.owner()
    except NotWhole as exc:
        others = [run for run in folder.runs() if run != folder.run_id]
        if others and not may_replace:
            raise OutputExists(
                f"{exc} It holds files of the run {others[0]}, and overwrite is Never. Set output.overwrite to IfChanged or Always, or another output.uri.",
                uri=exc.uri,
            ) from None
        owner = None
    ours = owner is not None and owner.run_id in (folder.run_id, begun)
    if not may_replace:
        if success is not None:
            raise OutputExists(
                f"{folder.uri} holds the finished data set of run {success.run_id}; overwrite is Never. Set output.overwrite to IfChanged or Always, or another output.uri.",
                uri=folder.uri,
            )
        if owner is not None and not ours:
            raise OutputExists(
                f"{folder.uri} belongs to the unfinished run {owner.run_id}; overwrite is Never. Set output.overwrite to IfChanged or Always, or another output.uri.",
                uri=folder.uri,
            )
    known = folder.known_files()
    if folder.run_id in folder.runs():
        # The stored plan may be damaged.
        known |= planned | names.split_files(extension, planned)
    for path, _ in folder.visible():
        if path not in known:
            raise OutputExists(
                f"{folder.uri} holds {path}, which no run of dataprep planned there; it is never overwritten. Move it away or choose another output.uri.",
                uri=folder.uri,
            )


def _split(name: str, head: PlanHead) -> SplitStatus:
    """One split of all runs of the data set."""
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
    plan: Plan,
    classes: Mapping[str, Sequence[str]],
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
        shards=head.shards,
        records=sum(split.records for split in head.splits),
        bytes_in=head.bytes_in,
        ignored=head.ignored,
        splits=[_split(name, head) for name in head.split_names],
        labels=[
            LabelStatus(feature=feature, num_classes=len(named), classes=[name[:256] for name in named[:MAX_LABELS]])
            for feature, named in sorted(classes.items())[:8]
        ],
        code_commit=plugins.commit(),
        reused=reused is not None,
        commit=result_of(*reused, folder) if reused else None,
        warnings=[warning[:512] for warning in [*warnings, *head.warnings][:10]],
    )
