"""`output.overwrite: Extend`: adds shards for new inputs to a finished data set.

An extension is an ordinary run. Its plan covers the whole data set and begins with the earlier plan, so the workers, the commit step,
verify and repair need no code for extensions. The plan step copies the existing shards' reports to the new run, and only the new shards are
made.

    plan ─▶ reports copied ─▶ OWNER ─▶ _SUCCESS removed ─▶ new shards ─▶ metadata, manifest, _SUCCESS

Until OWNER names the new run, `_SUCCESS` identifies the data set to be extended. After that, the new run's plan identifies the data set,
even if the new run is interrupted.
"""

import logging
from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Any, Final

from dataprep_api import names
from dataprep_api.dataset import run_id
from dataprep_api.dataset.report import Success
from dataprep_api.spec import DataPrepJobSpec
from dataprep_converter.core.closeable import closed_on_error
from dataprep_converter.core.errors import BadSpec, NotWhole
from dataprep_converter.dataset.listing import is_untouched
from dataprep_converter.dataset.output_folder import OutputFolder, RunFolder
from dataprep_converter.inputs.access import Access
from dataprep_converter.planning.growth import Base
from dataprep_converter.planning.planner import NewPlan, make_plan
from dataprep_converter.runtime.ahead import mapped_ahead
from dataprep_converter.sampling.plan import Plan, Tables, check_versions
from dataprep_converter.sampling.units import UnitTable
from dataprep_converter.steps.conversion.convert_plan import ConversionDraft
from dataprep_converter.stores.publish import copy_file

logger = logging.getLogger(__name__)

_AT_ONCE: Final = 16
_URIS: Final = ("uri", "uris")


@dataclass(frozen=True)
class ExistingDataSet:
    """The data set to be extended."""

    base: Base
    reports: RunFolder
    """The folder of the run whose reports describe the data set's shards."""


@dataclass(frozen=True, kw_only=True)
class ExtensionDraft(ConversionDraft):
    """The draft of a finished data set with new shards."""

    existing: ExistingDataSet

    def check_base(self, success: Success | None) -> None:
        """Raises NotWhole if shards of the finished data set have changed since they were written."""
        folder = self.existing.reports
        if success is not None and not is_untouched(folder.manifest(success), folder):
            raise NotWhole(
                f"{folder.uri} has changed since it was written, so it isn't extended. See dataprep verify and dataprep repair, or set output.overwrite: Always.",
                uri=folder.uri,
            )

    def take_over(self, folder: RunFolder) -> None:
        """Stores the plan and the existing shards' reports under the new run's id."""
        if folder.run_id not in (self.existing.base.head.run_id, self.existing.reports.run_id):
            # This run has one of these ids if there are no new inputs, or if it continues an unfinished extension. In both cases, the plan
            # and the reports are already stored under this id.
            _take_over(self.plan, self.tables, self.existing, folder, self.access)


def plan(spec: DataPrepJobSpec, access: Access) -> ExtensionDraft | None:
    """Plans the extension, or returns None if there is no data set at the output yet.

    Raises BadSpec naming the fields that differ from the earlier job's, and NotWhole when files are missing.
    """
    existing = find_existing(spec, access)
    if existing is None:
        return None
    new = _new_plan(spec, access, existing)
    return ExtensionDraft(
        spec=spec,
        access=access,
        plan=new.plan,
        tables=new.tables,
        classes=new.classes,
        features=new.features,
        existing=existing,
    )


def find_existing(spec: DataPrepJobSpec, access: Access) -> ExistingDataSet | None:
    """Returns the data set at the output, or None if there is none yet. Raises BadSpec and NotWhole under the same conditions as `plan`."""
    output = OutputFolder(spec.output.uri, access)
    success = output.success()
    if success is None:
        return _find_unfinished(spec, output)
    folder = output.of_run(success.run_id)
    manifest = folder.manifest(success)
    plan = folder.plan()
    if plan is None:
        raise NotWhole(f"{folder.uri}: {names.plan_file(success.run_id)} is missing. See dataprep repair.", uri=folder.uri)
    base = Base(head=plan.head, content=_fixed_content(manifest.content), units=plan.units, codes=plan.codes)
    _check_same(spec, base.content, success.run_id)
    check_versions(plan.head, spec, folder.uri)
    return ExistingDataSet(base, folder)


def _new_plan(spec: DataPrepJobSpec, access: Access, existing: ExistingDataSet) -> NewPlan:
    """Returns the plan of the extended data set, or the existing plan if there are no new inputs."""
    new = make_plan(spec, access, existing.base)
    if len(new.plan.units) > len(existing.base.units):
        return new
    with closed_on_error(new):
        folder = OutputFolder(spec.output.uri, access).of_run(existing.base.head.run_id)
        existing_plan = folder.plan()
        if existing_plan is None:
            raise NotWhole(
                f"An extension of {folder.uri} was almost finished, but its new inputs are missing now. Put them back, or set output.overwrite: Always.",
                uri=folder.uri,
            )
    return replace(new, plan=existing_plan)


def _take_over(plan: Plan, tables: Tables, existing: ExistingDataSet, folder: RunFolder, access: Access) -> None:
    """Stores the plan and the existing shards' reports under the new run's id."""
    if folder.plan() is None:
        folder.put_plan(plan, tables)
    store = access.store(folder.uri)

    def take_report(number: int) -> None:
        report = existing.reports.report(number)
        if report is None:
            return  # the work step will rebuild the shard
        if report.quarantine is not None and report.quarantine_sha256 is not None:
            path = names.quarantine_file(folder.run_id, report.split, _number_in(report.quarantine))
            copy_file(
                store,
                folder.at(report.quarantine),
                store,
                folder.at(path),
                sha256=report.quarantine_sha256,
                on_piece=lambda: None,
                before_publishing=lambda: None,
            )
            report = report.model_copy(update={"quarantine": path})
        folder.put_report(report.model_copy(update={"run_id": folder.run_id, "plan_sha256": plan.sha256}))

    for _ in mapped_ahead(take_report, range(plan.head.earlier_shards), most=_AT_ONCE):
        pass
    logger.info("run %s extends run %s and its %d shards", folder.run_id, existing.base.head.run_id, plan.head.earlier_shards)


def _find_unfinished(spec: DataPrepJobSpec, output: OutputFolder) -> ExistingDataSet | None:
    """Returns the data set that an unfinished extension extends, or None. This data set's plan is the beginning of the extension's plan."""
    owner = output.owner()
    if owner is None:
        return None
    folder = output.of_run(owner.run_id)
    unfinished = folder.plan()
    if unfinished is None or not unfinished.head.extends:
        return None
    before = unfinished.head.extends[-1]
    _check_same(spec, run_id.as_stored(before.content), owner.run_id)
    check_versions(unfinished.head, spec, folder.uri)
    head = unfinished.head.model_copy(
        update={
            "run_id": before.run_id,
            "inputs_sha256": before.inputs_sha256,
            "splits": unfinished.head.splits[: before.splits],
            "extends": unfinished.head.extends[:-1],
        }
    )
    units = UnitTable(unfinished.units.table.slice(0, before.units))
    return ExistingDataSet(Base(head=head, content=run_id.as_stored(before.content), units=units, codes=unfinished.codes), folder)


def _check_same(spec: DataPrepJobSpec, before: Mapping[str, Any], run: str) -> None:
    """Raises BadSpec naming the fields in which the spec differs from the spec of the existing data set."""
    now = _fixed_content(run_id.content(spec))
    differing = [field for field in sorted({*now, *before} - {"output"}) if now.get(field) != before.get(field)]
    old, new = before["output"], now["output"]
    differing += [f"output.{field}" for field in sorted({*old, *new}) if old.get(field) != new.get(field)]
    if not differing:
        return
    explanation = f"{', '.join(differing)} {'differs' if len(differing) == 1 else 'differ'}"
    if differing == ["output.fileName"] and "fileName" not in old:
        explanation = "its file names contain the number of files. To be able to extend a data set later, make it with overwrite: Extend from the start"
    if differing == ["output.fileName"] and "fileName" in old and "fileName" not in new:
        explanation += f" (it was {old['fileName']!r}: set the same in the job)"
    raise BadSpec(
        f"This job is not the job that made the data set (run {run}), so it can't extend the data set: {explanation}. Or set output.overwrite: Always to make the data set again."
    )


def _fixed_content(content: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the part of the spec that an extension must not change.

    The source's URIs are left out, because inputs are identified by their paths relative to these URIs.
    """

    def without(value: Any) -> Any:
        if isinstance(value, Mapping):
            return {key: without(each) for key, each in value.items() if key not in _URIS}
        return value

    # An older release may have stored values that are redacted now.
    return {key: without(value) if key == "source" else deepcopy(value) for key, value in run_id.as_stored(content).items()}


def _number_in(quarantine: str) -> int:
    return int(quarantine.rpartition("-")[2].partition(".")[0])
