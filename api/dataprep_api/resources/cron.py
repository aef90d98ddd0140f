"""The `DataPrepCronJob`, which creates DataPrepJobs on a schedule. It has the same fields as a Kubernetes CronJob."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Annotated, Any, Final, Literal, Self

from pydantic import ConfigDict, Field, ValidationError

from dataprep_api import API_VERSION, CRON_KIND, KIND
from dataprep_api.errors import SpecError
from dataprep_api.resources.faults import fault
from dataprep_api.resources.job import DataPrepJob, Metadata
from dataprep_api.resources.status import Condition, Time
from dataprep_api.spec import Model, Open, rule, rules

SCHEDULED_TIME: Final = "SCHEDULED_TIME"
"""The param that each job gets. The param's value is the time at which the job was due, in UTC."""
MAX_ACTIVE: Final = 64

History = Annotated[int, Field(ge=0, le=1000)]


class JobTemplateMetadata(Model):
    """Labels and annotations of each job."""

    labels: Annotated[dict[Annotated[str, Field(max_length=317)], Annotated[str, Field(max_length=63)]], Field(max_length=64)] | None = None
    """Labels of each job."""
    annotations: (
        Annotated[dict[Annotated[str, Field(max_length=317)], Annotated[str, Field(max_length=4096)]], Field(max_length=64)] | None
    ) = None
    """Annotations of each job."""


class JobSpec(Open):
    """The spec of a DataPrepJob, which `kubectl explain dataprepjob.spec` describes. `${SCHEDULED_TIME}` is replaced with the scheduled time."""


class JobTemplate(Model):
    """The jobs to create."""

    metadata: JobTemplateMetadata | None = None
    """Labels and annotations."""
    spec: JobSpec
    """Spec of a DataPrepJob."""


class DataPrepCronJobSpec(Model):
    """When and how to create DataPrepJobs."""

    schedule: Annotated[str, Field(max_length=256, pattern=r"^ *[^ ]+( +[^ ]+){4} *$")]
    """Schedule in crontab format, such as `0 3 * * *`. The five fields are minute, hour, day of the month, month, and day of the week. The example runs every night at three."""
    time_zone: Annotated[str, Field(min_length=1, max_length=64)] | None = None
    """Time zone of the schedule, such as `Europe/Berlin`. Default: UTC."""
    suspend: bool = False
    """Whether to stop creating jobs. Existing jobs continue."""
    concurrency_policy: Literal["Allow", "Forbid", "Replace"] = "Allow"
    """What to do if an earlier job still runs. `Allow`: both jobs run. `Forbid`: the new job waits until the earlier job ends. `Replace`: the earlier job is deleted."""
    starting_deadline_seconds: Annotated[int, Field(ge=10, le=31_536_000)] | None = None
    """Maximum delay for creating a job, in seconds. A job that would be delayed for longer is skipped. Default: no limit."""
    successful_jobs_history_limit: History = 3
    """Number of successful jobs to keep."""
    failed_jobs_history_limit: History = 1
    """Number of failed jobs to keep."""
    job_template: JobTemplate
    """The jobs to create."""


class ActiveJob(Model):
    """A job that is not finished."""

    name: Annotated[str, Field(max_length=253)]
    """Job name."""
    uid: Annotated[str, Field(max_length=64)]
    """Job UID."""


class DataPrepCronJobStatus(Model):
    """Observed state, written only by the operator."""

    observed_generation: int | None = None
    """Generation last seen by the operator."""
    last_schedule_time: Time | None = None
    """Time at which the last job was due."""
    last_successful_time: Time | None = None
    """Time at which the last successful job ended."""
    next_schedule_time: Time | None = None
    """Time at which the next job is due. The field is empty while no job is scheduled."""
    active: Annotated[list[ActiveJob], Field(max_length=MAX_ACTIVE)] = []
    """Unfinished jobs, oldest first."""
    conditions: Annotated[
        list[Condition],
        Field(max_length=8, json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]}),
    ] = []
    """Standard Kubernetes conditions."""


class DataPrepCronJob(Model):
    """Creates a DataPrepJob at each time of its schedule."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            # The name of each job consists of this name, a dash and the minutes since 1970. The names of Events are even longer.
            rule("size(self.metadata.name) <= 200", "the name may have at most 200 characters")
        )
    )

    api_version: Literal["dataprep.io/v1alpha1"] = API_VERSION  # type: ignore[assignment]  # the constant is that literal
    kind: Literal["DataPrepCronJob"] = CRON_KIND  # type: ignore[assignment]  # the same
    metadata: Metadata
    spec: DataPrepCronJobSpec
    status: DataPrepCronJobStatus | None = None

    @classmethod
    def parse(cls, document: Mapping[str, Any]) -> Self:  # Any, because the document is parsed YAML
        """Parse `document`. The job template is checked as if its job were due now. Raises SpecError with all faults that were found."""
        try:
            cron_job = cls.model_validate(document, by_alias=True, by_name=False)
        except ValidationError as exc:
            raise SpecError([fault(cls, error, document) for error in exc.errors()]) from exc
        try:
            DataPrepJob.parse(job_document(document, scheduled=datetime.now(UTC)))
        except SpecError as exc:
            raise SpecError([replace(nested, path=f"spec.jobTemplate.{nested.path}") for nested in exc.faults]) from exc
        return cron_job


# The values have the type Any, because they are parsed YAML.
def job_document(cron: Mapping[str, Any], *, scheduled: datetime) -> dict[str, Any]:
    """Return the DataPrepJob that the template yields for one scheduled time.

    The returned job has the name of the DataPrepCronJob. A caller that creates several jobs must replace this name with a unique name
    for each job.
    """
    template = cron["spec"]["jobTemplate"]
    spec = template.get("spec") or {}
    params = spec.get("params") or {}
    if isinstance(
        params, dict
    ):  # the API server doesn't check the template, so params may have any type; a wrong type is reported when the job is parsed
        params = {**params, SCHEDULED_TIME: scheduled_text(scheduled)}
    metadata = {key: dict(value) for key, value in (template.get("metadata") or {}).items() if value}
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "metadata": {**metadata, "name": cron["metadata"]["name"]},
        "spec": {**spec, "params": params},
    }


def scheduled_text(moment: datetime) -> str:
    """Format a time in UTC as `20260131T0300Z`. This form is valid in URIs and sorts chronologically."""
    return moment.astimezone(UTC).strftime("%Y%m%dT%H%MZ")
