"""Plans a conversion, and checks that the job doesn't write where its inputs are."""

from collections.abc import Sequence
from dataclasses import dataclass

from pydantic import ValidationError

from dataprep_api import names
from dataprep_api.dataset import run_id
from dataprep_api.dataset.plan import PlanHead
from dataprep_api.dataset.report import Manifest, Success
from dataprep_api.formats import format_rules
from dataprep_api.spec import DataPrepJobSpec, Source
from dataprep_converter.core.closeable import closed_on_error
from dataprep_converter.core.errors import BadData, BadSpec, InputChanged, NoInput, NotWhole, RoundedDefault
from dataprep_converter.dataset import overlaps
from dataprep_converter.dataset.output_folder import OutputFolder, RunFolder
from dataprep_converter.formats.registry import encoder_class
from dataprep_converter.inputs.access import Access
from dataprep_converter.inputs.archive_uris import archive_of
from dataprep_converter.planning.planner import NewPlan, make_plan
from dataprep_converter.readers.joins.joined_tables import JOINS
from dataprep_converter.readers.text_scan.files import TEXT_UNITS
from dataprep_converter.records.feature import FeatureSpec
from dataprep_converter.sampling.plan import Plan, Tables, WholePlan
from dataprep_converter.steps.conversion import table_output
from dataprep_converter.steps.conversion.scan_step import remove_scan
from dataprep_converter.steps.draft import Draft
from dataprep_converter.stores import scheme_of


@dataclass(frozen=True, kw_only=True)
class ConversionDraft(Draft):
    """The draft of a data set that workers will make."""

    plan: WholePlan
    tables: Tables
    features: Sequence[FeatureSpec]
    is_scanned: bool = False
    """Whether files of a scan are stored in the output folder."""

    def close(self) -> None:
        """Removes temporary files."""
        self.tables.close()

    def shuffle_tasks(self, plan: Plan) -> int | None:
        """Returns the number of tasks in the first round of a shuffle, or None if there is no such round."""
        return plan.head.shuffle_tasks

    def check_output(self, folder: RunFolder) -> None:
        """Raises an error when `output.table` can't accept the records."""
        table_output.check(self.spec, self.plan, self.features, folder, self.access)

    def finished(self, success: Success, folder: RunFolder) -> Manifest | None:
        """Returns the manifest if neither the files nor the table have changed."""
        manifest = super().finished(success, folder)
        return manifest if manifest is not None and table_output.is_untouched(self.spec, folder, self.access) else None

    def store(self, folder: RunFolder) -> Plan:
        """Stores the plan and the files that the reader made while planning, and opens the table's upload session."""
        if self.tables.intermediate is not None:
            folder.put_intermediate(self.tables.intermediate)
        plan = super().store(folder)
        table_output.begin(self.spec, folder, self.access)
        return plan

    def put_plan(self, folder: RunFolder) -> None:
        """Writes the plan's files. The head is written last."""
        folder.put_plan(self.plan, self.tables)

    def remove_scan(self) -> None:
        """Removes the listing and the results of the scan from which the plan was made."""
        if self.is_scanned:
            remove_scan(self.spec, self.access)


def plan(spec: DataPrepJobSpec, access: Access) -> ConversionDraft:
    """Plans the complete data set.

    If another release began this same job without finishing it, the plan follows that release's rules. Raises RoundedDefault if a default
    would lose digits. If an earlier release has planned the job, that release rounded the default, so no error is raised.
    """
    refusal: RoundedDefault | None = None
    try:
        new = make_plan(spec, access)
    except RoundedDefault as exc:
        if not OutputFolder(spec.output.uri, access).runs():
            raise
        refusal = exc
        new = make_plan(spec, access, parts=run_id.versions(spec))
    with closed_on_error(new):
        unfinished, earlier = _find_unfinished(spec, new.plan.head, access)
        if refusal is not None and unfinished is None and not _is_stored(spec, new.plan.head, access):
            raise refusal
    if unfinished is None or run_id.fault_of_versions(unfinished.parts, spec) is not None:
        return _draft(spec, access, new, unfinished)
    new.close()
    return _draft(spec, access, earlier or make_plan(spec, access, parts=unfinished.parts), unfinished)


def _draft(spec: DataPrepJobSpec, access: Access, new: NewPlan, unfinished: PlanHead | None) -> ConversionDraft:
    return ConversionDraft(
        spec=spec,
        access=access,
        plan=new.plan,
        tables=new.tables,
        classes=new.classes,
        features=new.features,
        size=new.size,
        predecessor=unfinished.run_id if unfinished is not None else None,
    )


def _is_stored(spec: DataPrepJobSpec, head: PlanHead, access: Access) -> bool:
    """Whether this run's plan is stored in the output folder."""
    return OutputFolder(spec.output.uri, access).of_run(head.run_id).read(names.plan_file(head.run_id)) is not None


def _find_unfinished(spec: DataPrepJobSpec, fresh: PlanHead, access: Access) -> tuple[PlanHead | None, NewPlan | None]:
    """Returns the plan of another release that began this same job with other rule versions and didn't finish it, or None.

    To find this plan, the job may have to be planned again, by that release's rules. If the plan is found this way, also returns the new
    plan by these rules, and `access` follows the rules from then on.
    """
    folder = OutputFolder(spec.output.uri, access)
    try:
        owner = folder.owner()
    except NotWhole:
        return None, None
    if owner is None or owner.run_id == fresh.run_id or folder.success() is not None:
        return None, None
    path = names.plan_file(owner.run_id)
    content = folder.read(path)
    try:
        head = folder.parse(PlanHead, path, content or b"")
    except ValidationError:
        return None, None
    if head.run_id != owner.run_id:
        return None, None
    if not _divides_otherwise(head, fresh) or run_id.fault_of_versions(head.parts, spec) is not None:
        return (head if _is_run_of(head, spec, fresh) else None), None
    try:
        earlier = make_plan(spec, access, parts=head.parts)
    except (BadSpec, BadData, NoInput, InputChanged):
        # The inputs have changed in a way that the old rules don't accept.
        access.follow(spec, fresh.parts)
        return None, None
    if _is_run_of(head, spec, earlier.plan.head):
        return head, earlier
    earlier.close()
    access.follow(spec, fresh.parts)
    return None, None


def _is_run_of(head: PlanHead, spec: DataPrepJobSpec, planned: PlanHead) -> bool:
    """Whether `head` is a plan of this job with the same inputs as `planned`, by the rules that `head` follows."""
    return head.run_id == run_id.run_id(spec, inputs_sha256=planned.inputs_sha256, parts=head.parts)


def _divides_otherwise(head: PlanHead, fresh: PlanHead) -> bool:
    """Whether another release may have planned the same records with other units, because it divides large text files or the rows of a join
    differently. The digest of the inputs then differs, although the inputs may be the same."""
    is_other = any(head.parts.get(part) != fresh.parts.get(part) for part in (TEXT_UNITS, JOINS))
    return is_other and head.spec_sha256 == fresh.spec_sha256 and head.samples == fresh.samples


def check_overlaps(spec: DataPrepJobSpec, access: Access) -> None:
    """Raises BadSpec when the job would write where it reads."""
    table = spec.output.table.uri if spec.output.table is not None else None
    shallow = _shallow_folders(spec.data)
    deep = [uri for uri in spec.data.inputs() if uri not in shallow]
    overlaps.check(deep, spec.output.uri, access, table=table, shallow=shallow, endings=_file_endings(spec))


def _file_endings(spec: DataPrepJobSpec) -> list[str] | None:
    """Returns all possible name endings of visible output files, or None if any ending is possible."""
    output = spec.output
    template = output.template or names.file_name_template(None, shards=2, format_=output.format, several_splits=True)
    extension = encoder_class(output.format).extension(output)
    ending = template.rpartition("{ext}")[2] if "{ext}" in template else None
    if ending is None or "{" in ending or "/" in ending:
        return None
    of_splits = format_rules(output.format).split_file
    return [f"{extension}{ending}", *([of_splits.name] if of_splits is not None else [])]


def _shallow_folders(source: Source) -> list[str]:
    """Returns the image folders in which the job might skip subfolders.

    If a table lists the images, returns the root of the listed paths. Otherwise, returns all image folders, or none if the job reads
    folders recursively.
    """
    images = source.images
    if images is None:
        return []
    if images.listed is not None:
        return [images.listed.root] if images.listed.root else []
    return [] if images.recursive else list(images.uris or [])


def source_uris(spec: DataPrepJobSpec) -> list[str]:
    """Returns every URI that the source names. For a file within an archive, returns the archive's URI."""
    return [_folder_of_glob(archive_of(uri)) for uri in spec.data.inputs()]


def _folder_of_glob(uri: str) -> str:
    """Returns the folder above a glob, and any other URI unchanged.

    A web address is never treated as a glob, because its question mark begins a query.
    """
    if scheme_of(uri) in ("http", "https"):
        return uri
    at = min((uri.index(sign) for sign in "*?[" if sign in uri), default=None)
    return uri if at is None else uri[:at].rpartition("/")[0]
