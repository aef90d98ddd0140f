"""Jobs as the operator observes them, and the child objects that it creates for them."""

from dataclasses import replace
from typing import Any

from dataprep_api.resources.job import DataPrepJob
from dataprep_api.resources.status import DataPrepJobStatus
from dataprep_api.spec import DataPrepJobSpec
from dataprep_operator.children import jobs
from dataprep_operator.objects.observed import Key, Observed
from dataprep_operator.settings import PodDefaults

DEFAULTS = PodDefaults(
    image="dataprep:1",
    cpu_node_selector={"pool": "cpu"},
    cpu_tolerations=({"key": "cpu-only", "operator": "Exists"},),
    gpu_node_selector={"pool": "gpu"},
    gpu_tolerations=({"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"},),
    resources={"requests": {"cpu": "250m"}},
    status_url="http://status:8080",
)
SHA = "cd" * 32


def a_spec(**rest: Any) -> DataPrepJobSpec:  # Any: a spec parsed from YAML
    spec = {"source": {"idx": {"subsets": [{"name": "train", "images": "s3://in/a"}]}}, "output": {"uri": "s3://out/x"}} | rest
    return DataPrepJob.parse({"apiVersion": "dataprep.io/v1alpha1", "kind": "DataPrepJob", "metadata": {"name": "m"}, "spec": spec}).spec


def a_job(name: str = "mnist", **rest: Any) -> Observed:  # Any: fields of Observed
    uid = "0f1e2d3c-0000-0000-0000-000000000000"
    seen = Observed(
        key=Key("team-a", name),
        uid=uid,
        version="1",
        generation=1,
        status=DataPrepJobStatus(),
        spec=None,
        raw_spec={"output": {"uri": "${where}"}},
    )
    return replace(seen, **rest)


def a_convert_job(spec: DataPrepJobSpec | None = None, *, seen: Observed | None = None, **rest: Any) -> Any:  # Any: JSON
    given: dict[str, Any] = {
        "run_id": "run1",
        "plan_sha256": SHA,
        "tasks": 10,
        "only": [],
        "attempt": 1,
        "gpu": False,
        "memory": None,
        "defaults": DEFAULTS,
    }
    return jobs.convert_job(seen or a_job(), spec or a_spec(), **(given | rest))


def container_of(job: Any) -> Any:  # Any: JSON
    """The only container of a Job's pods."""
    return job["spec"]["template"]["spec"]["containers"][0]


def exit_rules(job: Any) -> dict[str, list[int]]:  # Any: JSON
    return {rule["action"]: rule["onExitCodes"]["values"] for rule in job["spec"]["podFailurePolicy"]["rules"] if "onExitCodes" in rule}
