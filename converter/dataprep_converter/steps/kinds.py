"""The kinds of job: a conversion, a copy of a finished data set, and a user's script.

`kind_of` chooses a job's kind once. The code that runs a step calls the methods of the kind, and never chooses by the job's type again.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any, Protocol

from dataprep_api.dataset.messages import CommitResult, PlanResult
from dataprep_api.dataset.plan import Shard
from dataprep_api.formats import COPY
from dataprep_api.resources.job import DataPrepJob
from dataprep_api.spec import DataPrepJobSpec
from dataprep_converter.inputs.access import Access
from dataprep_converter.pipeline.task_progress import TaskProgress
from dataprep_converter.runtime.plan_progress import PlanProgress
from dataprep_converter.sampling.plan import Plan

if TYPE_CHECKING:
    from dataprep_converter.steps.draft import Draft
    from dataprep_converter.steps.executors import Executors


class Watch(Protocol):
    """Receives the events of a run in order to display them."""

    def planning(self, progress: PlanProgress) -> None:
        """Called when planning begins. The counts in `progress` rise while the plan is being made."""
        ...

    def scanned(self, progress: PlanProgress) -> None:
        """Called when more of the input has been scanned for the plan."""
        ...

    def step(self, name: str) -> None:
        """Called when another step begins."""
        ...

    def planned(self, plan: PlanResult) -> None:
        """Called when the plan is complete."""
        ...

    def shuffle_progress(self, index: int, progress: TaskProgress) -> None:
        """Called with new counts of one task of a shuffle's first round."""
        ...

    def progress(self, index: int, progress: TaskProgress) -> None:
        """Called with new counts of one task."""
        ...

    def reused(self, result: CommitResult) -> None:
        """Called when a finished data set is reused."""
        ...

    def finished(self, result: CommitResult) -> None:
        """Called when the data set is complete."""
        ...


class Kind(Protocol):
    """The steps of a job."""

    runs_code: bool
    """Whether the user's code (`spec.code`) makes the records. This code must be the same in the plan step and in the work step."""

    def check_overlaps(self, spec: DataPrepJobSpec, access: Access) -> None:
        """Raises BadSpec when the job would write to a place that it reads from."""
        ...

    def source_uris(self, spec: DataPrepJobSpec) -> list[str]:
        """Returns the URIs that must exist before the job is planned."""
        ...

    def scan_here(self, job: DataPrepJob, *, access: Access, workers: int, watch: Watch) -> None:
        """Lets several processes on this machine scan the source before the plan, if that saves time. `access` keeps the results."""
        ...

    def plan(self, spec: DataPrepJobSpec, access: Access) -> "Draft":
        """Plans the data set without writing anything."""
        ...

    def work_here(
        self, job: DataPrepJob, *, plan: Plan, access: Access, workers: int, watch: Watch, executors: "Executors | None" = None
    ) -> None:
        """Does all work of the job: on the executors of a Spark cluster if there are any, otherwise on this machine."""
        ...

    def work(
        self,
        spec: DataPrepJobSpec,
        *,
        plan: Plan,
        shards: Sequence[Shard],
        access: Access,
        attempt: str,
        watch: Callable[[TaskProgress], None],
    ) -> TaskProgress:
        """Runs one task: makes the task's unfinished shards."""
        ...

    def commit(self, spec: DataPrepJobSpec, *, plan: Plan, access: Access) -> CommitResult:
        """Checks the data set and marks it as finished. Idempotent."""
        ...


# Any, because the protocol `Kind` states the type of each step.
def _step(place: str) -> Any:
    """Returns a method that calls a function of a step's module.

    The module isn't imported before the first call: a pod runs only one step, and a pod of a small job spends most of its time on imports.
    """

    def call(*args: Any, **kwargs: Any) -> Any:
        return resolve_name(f"dataprep_converter.steps.{place}")(*args, **kwargs)

    return staticmethod(call)


class _WithoutScan:
    """A kind of job that needs no scan, because planning only lists the inputs."""

    def scan_here(self, job: DataPrepJob, *, access: Access, workers: int, watch: Watch) -> None:
        """Does nothing."""


class _InTasks:
    """A kind of job whose shards are divided into tasks, which several processes share."""

    def work_here(
        self: Kind, job: DataPrepJob, *, plan: Plan, access: Access, workers: int, watch: Watch, executors: "Executors | None" = None
    ) -> None:
        """Runs the tasks in several processes."""
        from dataprep_converter.steps import pool

        pool.run_tasks(job, self, plan=plan, access=access, workers=workers, watch=watch.progress, executors=executors)


class Conversion(_InTasks):
    """A job that reads and transforms the records of a source and writes them as shards."""

    runs_code = True
    check_overlaps = _step("conversion.convert_plan:check_overlaps")
    source_uris = _step("conversion.convert_plan:source_uris")
    work = _step("conversion.convert_work:work")
    commit = _step("conversion.convert_commit:commit")
    scan_here = _step("conversion.scan_here:scan_here")

    def work_here(
        self, job: DataPrepJob, *, plan: Plan, access: Access, workers: int, watch: Watch, executors: "Executors | None" = None
    ) -> None:
        """Runs the tasks in several processes. A shuffle of much data begins with the first of its two rounds."""
        from dataprep_converter.steps import pool

        pool.run_rounds(
            job,
            self,
            plan=plan,
            access=access,
            workers=workers,
            watch=watch.progress,
            watch_shuffle=watch.shuffle_progress,
            executors=executors,
        )

    def plan(self, spec: DataPrepJobSpec, access: Access) -> "Draft":
        """If there is a data set to extend, plans its extension; otherwise plans the complete data set.

        Uses the results of a scan.
        """
        from dataprep_converter.steps.conversion import convert_plan, extend, scan_step

        access.scan = scan = scan_step.scanned_before(spec, access)
        try:
            extension = extend.plan(spec, access) if spec.output.overwrite == "Extend" else None
            draft = extension or convert_plan.plan(spec, access)
        finally:
            access.scan = None
            if access.scanned_here is not None:
                access.scanned_here.close()
                access.scanned_here = None
        return replace(draft, is_scanned=scan is not None and scan.has_results)


class Copy(_WithoutScan, _InTasks):
    """A job that copies the files of a finished data set, byte for byte."""

    runs_code = False
    check_overlaps = _step("copy_job:check_overlaps")
    source_uris = _step("conversion.convert_plan:source_uris")
    plan = _step("copy_job:plan")
    work = _step("copy_job:work")
    commit = _step("copy_job:commit")


class Script(_WithoutScan):
    """A job in which the user's program makes the files and the commit step checks them."""

    runs_code = True
    check_overlaps = _step("script_job:check_overlaps")
    source_uris = _step("script_job:source_uris")
    plan = _step("script_job:plan")
    work = _step("script_job:work")
    commit = _step("script_commit:commit")

    def work_here(
        self, job: DataPrepJob, *, plan: Plan, access: Access, workers: int, watch: Watch, executors: "Executors | None" = None
    ) -> None:
        """Runs the user's program, always on this machine."""
        from dataprep_converter.steps import script_job

        del access, workers, executors
        watch.step("running the script")
        script_job.execute(job.spec, plan=plan)


def kind_of(spec: DataPrepJobSpec) -> Kind:
    """Returns the kind of the job."""
    if spec.script is not None:
        return Script()
    return Copy() if spec.output.format == COPY else Conversion()
