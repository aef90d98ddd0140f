"""All lists of a job's steps are complete: in the operator, in the converter's commands, and in the documentation."""

import re
from pathlib import Path
from typing import Final, get_args

import pytest
from tests.builders.children import DEFAULTS, SHA, a_job, a_spec, container_of

from dataprep_api.generate import crd
from dataprep_api.resources.status import DataPrepJobStatus, Phase, ScanStatus, StepName
from dataprep_converter.cli.commands import parsers
from dataprep_operator.decisions import events, step_jobs
from dataprep_operator.decisions.status import activity
from dataprep_operator.informer.cache import Cache
from dataprep_operator.objects import job_steps

STEPS: Final[tuple[StepName, ...]] = get_args(StepName)
DOCS: Final = Path(__file__).parents[2] / "docs"
COLUMN_OF_COUNTS: Final = "Shards"
"""The column of kubectl's output that shows how much of a step with several pods is finished."""


def a_status(step: StepName) -> DataPrepJobStatus:
    return DataPrepJobStatus(
        attempt=2, step=step, run_id="0123abcd", plan_sha256=SHA, tasks=4, shuffle_tasks=4, scan=ScanStatus(id="feed" * 4, parts=4)
    )


def command_of(step: StepName) -> str:
    """The command that the step's pods run."""
    [command, *_] = container_of(step_jobs.job(a_job(), a_spec(), a_status(step), queue=None, defaults=DEFAULTS))["args"]
    return str(command)


def section(page: str, heading: str) -> str:
    _, _, after = (DOCS / page).read_text(encoding="utf-8").partition(f"\n## {heading}\n")
    return after.partition("\n## ")[0]


def rows(text: str) -> list[str]:
    return [line for line in text.splitlines() if line.startswith("|")]


@pytest.mark.parametrize("step", STEPS)
def test_the_condition_running_says_what_the_pods_do(step: StepName) -> None:
    doing = activity.OF_STEP[step]
    assert doing.phase in get_args(Phase)
    assert doing.message.endswith(".")
    assert [each for each in STEPS if activity.OF_STEP[each].message == doing.message] == [step]


@pytest.mark.parametrize("step", STEPS)
def test_the_metric_of_jobs_counts_the_phase_of_the_step(step: StepName) -> None:
    assert activity.OF_STEP[step].phase in Cache().phases()


@pytest.mark.parametrize("step", STEPS)
def test_an_event_names_the_step_of_a_retry(step: StepName) -> None:
    before, after = a_status(step).model_copy(update={"attempt": 1}), a_status(step).model_copy(update={"handled_retry": "1"})
    [note, *_] = events.between(before, after)
    assert note.message == f"Attempt 2 begins with the step {step}."


@pytest.mark.parametrize("step", STEPS)
def test_an_event_names_the_step_that_ran_out_of_memory(step: StepName) -> None:
    field = job_steps.of_status(step).memory_field
    before = a_status(step).model_copy(update={"attempt": 1})
    after = DataPrepJobStatus.model_validate(a_status(step).model_dump() | {"effective": {field: "2Gi"}})
    [note, *_] = events.between(before, after)
    whose = "Tasks" if step == "Convert" else f"The {step.lower()} step"
    assert note.message == f"{whose} ran out of memory, so attempt 2 has 2Gi."


@pytest.mark.parametrize("step", STEPS)
def test_the_page_on_reconciling_names_the_step_and_its_job(step: StepName) -> None:
    page, label = (DOCS / "reconcile.md").read_text(encoding="utf-8"), step.lower()
    assert re.search(rf"`<base>-{label}(-N)?`", section("reconcile.md", "Names and ownership"))
    assert f"{label} Job" in page.partition("\n## ")[0]
    if job_steps.is_indexed(label):
        assert f"one {job_steps.BY_LABEL[label].share})" in page.partition("\n## ")[0]


def test_the_page_on_reconciling_explains_each_step_that_shares_a_phase() -> None:
    named = [step for step in STEPS if f"`{step}`" in section("reconcile.md", "Phases")]
    assert {"Scan", "Merge", "Shuffle"} <= set(named)


@pytest.mark.parametrize("step", [step for step in STEPS if job_steps.is_indexed(step.lower())])
def test_the_column_of_kubectl_says_what_it_counts(step: StepName) -> None:
    [column] = [column for column in crd.crd()["spec"]["versions"][0]["additionalPrinterColumns"] if column["name"] == COLUMN_OF_COUNTS]
    shares = "shards" if step == "Convert" else f"{job_steps.of_status(step).share}s"
    assert (column["jsonPath"], shares in column["description"]) == (".status.progress.summary", True)
    [row] = [row for row in rows((DOCS / "fields.md").read_text(encoding="utf-8")) if row.startswith("| `summary` |")]
    assert shares in row


@pytest.mark.parametrize("step", STEPS)
def test_the_pods_of_the_step_run_a_command_that_the_readme_lists(step: StepName) -> None:
    command = command_of(step)
    [row] = [row for row in rows((DOCS.parent / "README.md").read_text(encoding="utf-8")) if "the steps that the pods run" in row]
    assert f"`{command}`" in row.replace("`dataprep ", "`")
    assert command in parsers()[1]


@pytest.mark.parametrize("step", STEPS)
def test_the_span_of_the_step_is_listed(step: StepName) -> None:
    spans = [row.split("|")[1] for row in rows(section("operations.md", "Traces"))]
    assert any(f"`{command_of(step)}`" in span for span in spans)
