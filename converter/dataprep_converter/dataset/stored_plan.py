"""Loads the stored plan of a run, for the steps after the plan step."""

from dataprep_converter.core.errors import BadSpec, InputChanged, NotFound
from dataprep_converter.dataset.output_folder import RunFolder
from dataprep_converter.runtime import plugins
from dataprep_converter.sampling.plan import Plan


def load_plan(folder: RunFolder, plan_sha256: str, *, runs_code: bool = True) -> Plan:
    """Loads the stored plan. Raises OutputLost if another run owns the folder, and BadSpec if the plan isn't the expected one.

    With `runs_code`, also raises InputChanged if the user's code has changed since the plan was made.
    """
    plan = folder.plan_for_work()
    if plan is None:
        folder.check_owner()
        raise NotFound(f"{folder.uri} has no plan of run {folder.run_id}; was it deleted? Plan again.", uri=folder.uri)
    if plan.sha256 != plan_sha256:
        raise BadSpec(f"The plan of run {folder.run_id} has SHA-256 {plan.sha256}, but this worker was started for {plan_sha256}.")
    if runs_code and plan.head.code_sha256 is not None and plan.head.code_sha256 != plugins.digest():
        raise InputChanged("The files of spec.code have changed since the job was planned; make a new job for the new code.")
    return plan
