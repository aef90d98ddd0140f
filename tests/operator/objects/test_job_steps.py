"""The table of steps contains every step, and names only fields that exist."""

from typing import get_args

from dataprep_api.generate import crd
from dataprep_api.resources.status import Effective, StepName
from dataprep_api.spec import StepDeadlines
from dataprep_operator.objects import job_steps


def test_the_table_has_every_step_of_the_status_under_its_label() -> None:
    assert {label: step.name for label, step in job_steps.BY_LABEL.items()} == {name.lower(): name for name in get_args(StepName)}


def test_the_api_server_accepts_every_step_in_a_status() -> None:
    status = crd.crd()["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["status"]["properties"]

    assert status["step"]["enum"] == list(get_args(StepName))
    assert status["failures"]["items"]["properties"]["step"]["enum"] == list(get_args(StepName))


def test_the_table_names_fields_that_exist() -> None:
    for step in job_steps.BY_LABEL.values():
        assert step.memory_field in Effective.model_fields
        assert step.deadline_field in StepDeadlines.model_fields


def test_a_step_has_several_pods_which_share_something_or_one_that_reports() -> None:
    assert [step.is_indexed for step in job_steps.BY_LABEL.values()] == [bool(step.share) for step in job_steps.BY_LABEL.values()]
    assert not job_steps.is_indexed("cleanup")
    assert not job_steps.plans("")
