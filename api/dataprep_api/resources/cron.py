"""A whole `DataPrepCronJob`: a DataPrepJob made again and again, on a schedule. Its fields are those of Kubernetes' CronJob."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Annotated, Any, Final, Literal, Self

from pydantic import ConfigDict, Field, ValidationError

from dataprep_api import API_VERSION, CRON_KIND, KIND
from dataprep_api.errors import Fault, SpecError
from dataprep_api.resources.job import DataPrepJob, Metadata, fault
from dataprep_api.resources.status import Condition, Time
from dataprep_api.spec import Model, Open, rule, rules

SCHEDULED_TIME: Final = "SCHEDULED_TIME"
"""The param that each job gets: when it was due, in UTC."""
MAX_ACTIVE: Final = 64

History = Annotated[int, Field(ge=0, le=1000)]


class JobTemplateMetadata(Model):
    """Labels and annotations of each job."""

    labels: Annotated[dict[Annotated[str, Field(max_length=317)], Annotated[str, Field(max_length=63)]], Field(max_length=64)] | None = None
    """Labels of the jobs."""
    annotations: (
        Annotated[dict[Annotated[str, Field(max_length=317)], Annotated[str, Field(max_length=4096)]], Field(max_length=64)] | None
    ) = None
    """Annotations of the jobs."""


class JobSpec(Open):
    """The spec of a DataPrepJob; `kubectl explain dataprepjob.spec` describes it. `${SCHEDULED_TIME}` is filled in."""


class JobTemplate(Model):
    """The jobs to create."""

    metadata: JobTemplateMetadata | None = None
    """Labels and annotations."""
    spec: JobSpec
    """Spec of a DataPrepJob."""


class DataPrepCronJobSpec(Model):
    """When and how to create DataPrepJobs."""

    schedule: Annotated[str, Field(max_length=256, pattern=r"^ *[^ ]+( +[^ ]+){4} *$")]
    """Schedule, as in crontab: `0 3 * * *`. Five fields: minute, hour, day of the month, month, day of the week. The example is every night at three."""
    time_zone: Annotated[str, Field(min_length=1, max_length=64)] | None = None
    """Time zone of the schedule: `Europe/Berlin`. Default: UTC."""
    suspend: bool = False
    """Whether to stop creating jobs. Existing jobs go on."""
    concurrency_policy: Literal["Allow", "Forbid", "Replace"] = "Allow"
    """What to do while an earlier job runs. `Allow`: both run. `Forbid`: the new job waits until the earlier one ends. `Replace`: the earlier one is deleted."""
    starting_deadline_seconds: Annotated[int, Field(ge=10, le=31_536_000)] | None = None
    """How late a job may be created. After that it is skipped. Default: no limit."""
    successful_jobs_history_limit: History = 3
    """Successful jobs to keep."""
    failed_jobs_history_limit: History = 1
    """Failed jobs to keep."""
    job_template: JobTemplate
    """The jobs to create."""


class ActiveJob(Model):
    """A job that is not finished."""

    name: Annotated[str, Field(max_length=253)]
    """Job name."""
    uid: Annotated[str, Field(max_length=64)]
    """Job UID."""


class DataPrepCronJobStatus(Model):
    """Observed state, written by the operator alone."""

    observed_generation: int | None = None
    """Generation seen last."""
    last_schedule_time: Time | None = None
    """When the last job was due."""
    last_successful_time: Time | None = None
    """When the last successful job ended."""
    next_schedule_time: Time | None = None
    """When the next job is due. Empty while nothing is scheduled."""
    active: Annotated[list[ActiveJob], Field(max_length=MAX_ACTIVE)] = []
    """Unfinished jobs, oldest first."""
    conditions: Annotated[
        list[Condition],
        Field(max_length=8, json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]}),
    ] = []
    """Conditions."""


class DataPrepCronJob(Model):
    """Makes a DataPrepJob each time its schedule comes round."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            # A job's name has a dash and the minutes since 1970 more, and an Event's name still more.
            rule("size(self.metadata.name) <= 200", "the name may have at most 200 characters")
        )
    )

    api_version: Literal["dataprep.io/v1alpha1"] = API_VERSION  # type: ignore[assignment]  # the constant is that literal
    kind: Literal["DataPrepCronJob"] = CRON_KIND  # type: ignore[assignment]  # the same
    metadata: Metadata
    spec: DataPrepCronJobSpec
    status: DataPrepCronJobStatus | None = None

    @classmethod
    def parse(cls, document: Mapping[str, Any]) -> Self:  # Any: YAML
        """The object in `document`, its template checked as the job of this moment. Raises SpecError with every fault found."""
        try:
            found = cls.model_validate(document, by_alias=True, by_name=False)
        except ValidationError as exc:
            raise SpecError([fault(cls, error) for error in exc.errors()]) from exc
        try:
            DataPrepJob.parse(job_document(document, scheduled=datetime.now(UTC)))
        except SpecError as exc:
            raise SpecError([Fault(f"spec.jobTemplate.{each.path}", each.message) for each in exc.faults]) from exc
        return found


# Any: objects as YAML has them.
def job_document(cron: Mapping[str, Any], *, scheduled: datetime) -> dict[str, Any]:
    """The DataPrepJob that the template makes for one moment, without a name of its own."""
    template = cron["spec"]["jobTemplate"]
    spec = template.get("spec") or {}
    params = spec.get("params") or {}
    if isinstance(
        params, dict
    ):  # the API server has not looked at the template, so it may be anything; whoever parses the job will say what
        params = {**params, SCHEDULED_TIME: scheduled_text(scheduled)}
    told = {key: dict(value) for key, value in (template.get("metadata") or {}).items() if value}
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "metadata": {**told, "name": cron["metadata"]["name"]},
        "spec": {**spec, "params": params},
    }


def scheduled_text(moment: datetime) -> str:
    """`20260131T0300Z`: UTC, fit for a part of a URI, sorted as time goes."""
    return moment.astimezone(UTC).strftime("%Y%m%dT%H%MZ")
