"""DataPrepCronJobs: which specs are accepted or refused, the CRD, and the job that a template produces."""

import copy
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
import yaml

from dataprep_api.errors import SpecError
from dataprep_api.generate import crd
from dataprep_api.resources.cron import DataPrepCronJob, job_document, scheduled_text
from dataprep_api.resources.job import DataPrepJob

EXAMPLES = sorted((Path(__file__).parents[2] / "examples").glob("cron-*.yaml"))
DUE = datetime(2026, 1, 31, 3, 0, tzinfo=UTC)


def a_cron(**changes: Any) -> dict[str, Any]:  # Any: YAML
    spec = {
        "schedule": "0 3 * * *",
        "jobTemplate": {
            "metadata": {"labels": {"team": "a"}},
            "spec": {"params": {"in": "/in"}, "source": {"csv": {"uris": ["${in}"]}}, "output": {"uri": "/out/${SCHEDULED_TIME}"}},
        },
    }
    return {"apiVersion": "dataprep.io/v1alpha1", "kind": "DataPrepCronJob", "metadata": {"name": "nightly"}, "spec": spec | changes}


def test_defaults_are_those_of_kubernetes() -> None:
    spec = DataPrepCronJob.parse(a_cron()).spec

    assert (spec.concurrency_policy, spec.suspend, spec.starting_deadline_seconds) == ("Allow", False, None)
    assert (spec.successful_jobs_history_limit, spec.failed_jobs_history_limit) == (3, 1)


def test_the_template_makes_a_whole_job_and_stays_as_it_is() -> None:
    cron = a_cron()
    before = copy.deepcopy(cron)
    job = job_document(cron, scheduled=DUE)

    assert job["metadata"] == {"labels": {"team": "a"}, "name": "nightly"}
    assert job["spec"]["params"] == {"in": "/in", "SCHEDULED_TIME": "20260131T0300Z"}
    assert DataPrepJob.parse(job).spec.output.uri == "/out/20260131T0300Z"
    assert cron == before


def test_each_time_may_be_a_version() -> None:
    template = {"spec": {"source": {"csv": {"uris": ["/in"]}}, "output": {"uri": "/out", "version": "${SCHEDULED_TIME}"}}}
    job = job_document(a_cron(jobTemplate=template), scheduled=DUE)
    assert DataPrepJob.parse(job).spec.output.uri == "/out/20260131T0300Z"


def test_each_time_may_extend_one_data_set() -> None:
    source, output = {"csv": {"uris": ["/in"]}}, {"uri": "/out", "overwrite": "Extend"}
    assert DataPrepCronJob.parse(a_cron(jobTemplate={"spec": {"source": source, "output": output}})).spec.job_template is not None
    with pytest.raises(SpecError, match=r"spec\.jobTemplate\.spec: overwrite: Extend: limit chooses from all records"):
        DataPrepCronJob.parse(a_cron(jobTemplate={"spec": {"source": source, "output": output, "limit": 5}}))


def test_the_time_in_the_param_is_utc() -> None:
    assert scheduled_text(datetime(2026, 1, 31, 1, 30, tzinfo=timezone(timedelta(hours=2)))) == "20260130T2330Z"


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "no schedule": ({"schedule": None}, "spec.schedule: has no value (in YAML, ~ and null also mean no value); expected text"),
    "six fields": ({"schedule": "0 0 3 * * *"}, "spec.schedule: must match the pattern"),
    "macro": ({"schedule": "@daily"}, "spec.schedule: must match the pattern"),
    "policy": ({"concurrencyPolicy": "Wait"}, "spec.concurrencyPolicy: expected 'Allow', 'Forbid' or 'Replace'"),
    "misspelt": ({"timezone": "UTC"}, "spec.timezone: unknown field; did you mean timeZone?"),
    "deadline": ({"startingDeadlineSeconds": 1}, "spec.startingDeadlineSeconds: must be at least 10, got 1"),
    "no template": ({"jobTemplate": {}}, "spec.jobTemplate.spec: is required"),
    "template": (
        {"jobTemplate": {"spec": {"source": {"csv": {"uris": ["/in"]}}, "output": {"url": "/out"}}}},
        "spec.jobTemplate.spec.output.url: unknown field; did you mean uri?",
    ),
}


@pytest.mark.parametrize(("changes", "said"), REFUSED.values(), ids=REFUSED.keys())
def test_a_fault_is_named_with_its_path(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(SpecError) as caught:
        DataPrepCronJob.parse(a_cron(**changes))

    assert said in str(caught.value)


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda file: file.name)
def test_an_example_is_valid(example: Path) -> None:
    DataPrepCronJob.parse(yaml.safe_load(example.read_text()))


def test_there_are_examples() -> None:
    assert EXAMPLES


# --- the CRD ----------------------------------------------------------------------------------------------------------------


def test_the_template_s_spec_is_open_and_nothing_else() -> None:
    spec = crd.cron_schema()["properties"]["spec"]
    template = spec["properties"]["jobTemplate"]["properties"]["spec"]

    assert template["x-kubernetes-preserve-unknown-fields"] is True
    assert "properties" not in template
    assert str(crd.cron_schema()).count("preserve-unknown-fields") == 1


def test_columns_name_fields_that_exist() -> None:
    schema = crd.cron_schema()["properties"]
    version = crd.cron_crd()["spec"]["versions"][0]
    first = {column["jsonPath"].split(".")[2].partition("[")[0] for column in version["additionalPrinterColumns"]}

    assert first <= {*schema["spec"]["properties"], *schema["status"]["properties"], "creationTimestamp"}
    assert version["subresources"] == {"status": {}}


def test_the_two_crds_share_nothing_but_the_group() -> None:
    names = [each["spec"]["names"] for each in (crd.crd(), crd.cron_crd())]

    assert [each["plural"] for each in names] == ["dataprepjobs", "dataprepcronjobs"]
    assert [each["shortNames"] for each in names] == [["dpj"], ["dpcj"]]


def test_the_status_has_no_defaults_but_that_no_operator_has_seen_the_object() -> None:
    status = dict(crd.cron_schema()["properties"]["status"])

    assert status.pop("default") == {"observedGeneration": -1}
    assert "'default'" not in str(status)
