"""Finishing: which commit step a job has."""

from dataprep_api.dataset.messages import CommitResult
from dataprep_api.spec import DataPrepJobSpec
from dataprep_converter.inputs.access import Access
from dataprep_converter.sampling.plan import Plan
from dataprep_converter.steps import convert_commit, copy_job
from dataprep_converter.steps.script_commit import commit


def finish(spec: DataPrepJobSpec, *, plan: Plan, access: Access) -> CommitResult:
    """Finishes the data set: made by workers, by a script, or copied."""
    if spec.script is not None:
        return commit(spec, plan=plan, access=access)
    if spec.output.format == copy_job.FORMAT:
        return copy_job.finish(spec, plan=plan, access=access)
    return convert_commit.commit(spec, plan=plan, access=access)
