"""The kinds of job: a conversion, a copy of a finished data set, and a script of the user's own.

A job's kind is chosen once, by `kind_of`. Whoever runs a step calls the kind, and doesn't ask again what the job is.
"""

from collections.abc import Callable, Sequence
from typing import Protocol

from dataprep_api.dataset.messages import CommitResult, PlanResult
from dataprep_api.dataset.plan import Shard
from dataprep_api.formats import COPY
from dataprep_api.resources.job import DataPrepJob
from dataprep_api.spec import DataPrepJobSpec
from dataprep_converter.inputs.access import Access
from dataprep_converter.pipeline.task_progress import TaskProgress
from dataprep_converter.sampling.plan import Plan
from dataprep_converter.steps import convert_commit, convert_plan, convert_work, copy_job, extend, pool, script_commit, script_job
from dataprep_converter.steps.draft import Draft


class Watch(Protocol):
    """Is told how a run goes."""

    def step(self, name: str) -> None:
        """A step begins."""
        ...

    def planned(self, plan: PlanResult) -> None:
        """The plan is made."""
        ...

    def progress(self, index: int, progress: TaskProgress) -> None:
        """New counts of one task."""
        ...

    def reused(self, result: CommitResult) -> None:
        """A finished data set was there already."""
        ...

    def finished(self, result: CommitResult) -> None:
        """The data set is whole."""
        ...


class Kind(Protocol):
    """The steps of a job."""

    runs_code: bool
    """Whether code of the user's own (`spec.code`) makes the records, so that it must be the code that was planned with."""

    def check_overlaps(self, spec: DataPrepJobSpec, access: Access) -> None:
        """Raises BadSpec when the job would write where it reads."""
        ...

    def source_uris(self, spec: DataPrepJobSpec) -> list[str]:
        """What must be there before the job is planned."""
        ...

    def plan(self, spec: DataPrepJobSpec, access: Access) -> Draft:
        """Plans the data set. Nothing is written."""
        ...

    def work_here(self, job: DataPrepJob, *, plan: Plan, access: Access, workers: int, watch: Watch) -> None:
        """Does all the work on this machine."""
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
        """Does one task: makes what is missing of its shards."""
        ...

    def commit(self, spec: DataPrepJobSpec, *, plan: Plan, access: Access) -> CommitResult:
        """Checks the data set and marks it as finished. Idempotent."""
        ...


class _InTasks:
    """A kind whose shards are divided into tasks, which several processes share."""

    def work_here(self: Kind, job: DataPrepJob, *, plan: Plan, access: Access, workers: int, watch: Watch) -> None:
        """Runs the tasks in several processes."""
        pool.run_tasks(job, self, plan=plan, access=access, workers=workers, watch=watch.progress)


class Conversion(_InTasks):
    """Records of a source are read, transformed and written as shards."""

    runs_code = True
    check_overlaps = staticmethod(convert_plan.check_overlaps)
    source_uris = staticmethod(convert_plan.source_uris)
    work = staticmethod(convert_work.work)
    commit = staticmethod(convert_commit.commit)

    def plan(self, spec: DataPrepJobSpec, access: Access) -> Draft:
        """Plans an extension where there is something to extend, and else the whole data set."""
        extension = extend.plan(spec, access) if spec.output.overwrite == "Extend" else None
        return extension or convert_plan.plan(spec, access)


class Copy(_InTasks):
    """The files of a finished data set are copied, byte for byte."""

    runs_code = False
    check_overlaps = staticmethod(copy_job.check_overlaps)
    source_uris = staticmethod(convert_plan.source_uris)
    plan = staticmethod(copy_job.plan)
    work = staticmethod(copy_job.work)
    commit = staticmethod(copy_job.commit)


class Script:
    """A program of the user's own makes the files, and the commit step checks them."""

    runs_code = True
    check_overlaps = staticmethod(script_job.check_overlaps)
    source_uris = staticmethod(script_job.source_uris)
    plan = staticmethod(script_job.plan)
    work = staticmethod(script_job.work)
    commit = staticmethod(script_commit.commit)

    def work_here(self, job: DataPrepJob, *, plan: Plan, access: Access, workers: int, watch: Watch) -> None:
        """Runs the program."""
        del access, workers
        watch.step("running the script")
        script_job.execute(job.spec, plan=plan)


def kind_of(spec: DataPrepJobSpec) -> Kind:
    """The kind of a job."""
    if spec.script is not None:
        return Script()
    return Copy() if spec.output.format == COPY else Conversion()
