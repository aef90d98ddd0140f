"""Builds the plan step of a job with `spec.engine.spark`: a Spark cluster in one Indexed Job. All functions are pure.

The pod of index 0 runs Spark's master and driver, and does the plan step. All other pods run a worker with one executor. The Job succeeds
as soon as index 0 succeeds (`successPolicy`). Kubernetes then stops the workers. If a pod dies, the Job controller creates another pod. A
new worker joins the master, and a new driver starts the step again.

The pods have no permissions on the Kubernetes API. They find the master through a headless Service, and authenticate each other with a
secret that the operator creates only for this Job. Each pod mounts the secret as a file, so the secret doesn't appear in the Job, in the
pods or in a command line.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from dataprep_api import names
from dataprep_api.spec import DataPrepJobSpec
from dataprep_api.spec.engine import Spark
from dataprep_operator.children.job_bodies import Indexes, spark_job
from dataprep_operator.children.metadata import Body, child_name, owned_labels, owned_metadata
from dataprep_operator.children.pod_template import JOB_FILE, MOUNTS, pod_template
from dataprep_operator.objects.observed import Observed
from dataprep_operator.settings import PodDefaults

STEP: Final = "plan"
PORTS: Final[Mapping[str, int]] = {"master": 7077, "rpc": 7078, "blocks": 7079}
"""The ports through which the pods reach each other: `master` for the master, `rpc` for the driver and the workers, `blocks` for data."""
SECRET_FOLDER: Final = f"{MOUNTS}/spark"
SECRET_KEY: Final = "secret"  # noqa: S105 - the name of a key
_SECRET_VOLUME: Final = "dataprep-spark"  # noqa: S105 - a volume
_NO_SECRET: Final = ""
"""The name of the Secret in a Job that `with_secret` hasn't completed yet."""


@dataclass(frozen=True)
class Network:
    """The objects that the operator creates before the Job, so that the Job's pods can find and authenticate each other."""

    service: Body
    secret: Body
    """The Secret without its name and its data. The operator chooses both at random when it creates the Secret."""


def fault(spec: DataPrepJobSpec, defaults: PodDefaults) -> str | None:
    """Return why the job can't use its engine in this installation, or None if it can."""
    if spec.engine is None or defaults.spark_image is not None:
        return None
    return "spec.engine.spark: this installation of the operator doesn't create Spark clusters (spark.enabled of the chart)"


def network(observed: Observed, *, attempt: int) -> Network:
    """Return the Service and the Secret of the attempt's Spark cluster. They are deleted with the DataPrepJob."""
    name, labels = service_name(observed, attempt=attempt), owned_labels(observed, step=STEP, attempt=attempt)
    selector = {key: labels[key] for key in (names.LABEL_JOB_UID, names.LABEL_STEP, names.LABEL_ATTEMPT)}
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": owned_metadata(observed, name, labels=labels),
        "spec": {
            "clusterIP": "None",
            "selector": selector | {names.LABEL_ENGINE: names.SPARK},
            # The workers look up the master's address before the master is ready.
            "publishNotReadyAddresses": True,
            "ports": [{"name": port, "port": number, "targetPort": number, "protocol": "TCP"} for port, number in PORTS.items()],
        },
    }
    secret = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": owned_metadata(observed, f"{name}-", labels=labels),
        "type": "Opaque",
        "immutable": True,
    }
    return Network(service, secret)


def secret_of(network: Network, *, suffix: str, secret: str) -> Body:
    """Return the complete Secret.

    `suffix` is random, so that nobody can create a Secret with this name and known content in advance.
    """
    metadata = network.secret["metadata"]
    return network.secret | {"metadata": metadata | {"name": metadata["name"] + suffix}, "stringData": {SECRET_KEY: secret}}


def with_secret(job: Body, secret_name: str) -> Body:
    """Return the Job whose pods mount this Secret."""
    pod = job["spec"]["template"]["spec"]
    volumes = [
        volume | {"secret": volume["secret"] | {"secretName": secret_name}} if volume["name"] == _SECRET_VOLUME else volume
        for volume in pod["volumes"]
    ]
    template = job["spec"]["template"] | {"spec": pod | {"volumes": volumes}}
    return job | {"spec": job["spec"] | {"template": template}}


def service_name(observed: Observed, *, attempt: int) -> str:
    """Return the name of the headless Service. The name of a Service must begin with a letter, but a job's name may begin with a digit."""
    return f"spark-{observed.child_prefix}-{attempt}"


def plan_job(
    observed: Observed, spec: DataPrepJobSpec, spark: Spark, *, attempt: int, memory: str | None, may_divide: bool, defaults: PodDefaults
) -> Body:
    """Return the Job of the plan step, without the name of the Secret, which `with_secret` adds.

    `memory` is the raised memory of its pods, or None. `may_divide` says whether the shuffle step is allowed to follow.
    """
    job_name, service = child_name(observed, STEP, attempt), service_name(observed, attempt=attempt)
    # The pods need the master's name, because a master that is created again has another address.
    host = f"{job_name}-0.{service}.{observed.key.namespace}.svc"
    arguments = ["spark-plan", "--job", f"{MOUNTS}/{JOB_FILE}", "--master", f"spark://{host}:{PORTS['master']}"]
    template = pod_template(
        observed,
        spec,
        step=STEP,
        attempt=attempt,
        arguments=[*arguments, "--secret-file", f"{SECRET_FOLDER}/{SECRET_KEY}"],
        gpu=False,
        memory=memory,
        variables={names.TWO_ROUNDS: "true"} if may_divide else {},
        defaults=defaults,
    )
    pod = _in_cluster(template, spec, spark, service, defaults=defaults)
    return spark_job(observed, spec, attempt=attempt, pod=pod, indexes=Indexes(1 + spark.executor.instances, ""))


# Any, because a pod template is a JSON object of the API.
def _in_cluster(template: Mapping[str, Any], spec: DataPrepJobSpec, spark: Spark, service: str, *, defaults: PodDefaults) -> Body:
    """Return the pod template with the image, the secret, the ports and the name that Spark needs."""
    pod = template["spec"]
    (container,) = pod["containers"]
    image = spark.image or defaults.spark_image
    pull_policy = spec.workers.image_pull_policy or (defaults.image_pull_policy if image == defaults.spark_image else None)
    secret = {"secretName": _NO_SECRET, "optional": False, "defaultMode": 0o440}
    own_address = {"name": "POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}
    inherited = {key: value for key, value in container.items() if key != "imagePullPolicy"}
    container = inherited | {
        "image": image,
        "env": [*container["env"], own_address],
        "ports": [{"name": name, "containerPort": port, "protocol": "TCP"} for name, port in PORTS.items()],
        "volumeMounts": [*container["volumeMounts"], {"name": _SECRET_VOLUME, "mountPath": SECRET_FOLDER, "readOnly": True}],
        # Spark's processes write to their working directory.
        "workingDir": "/tmp",  # noqa: S108 - a path in the pod
        **({"imagePullPolicy": pull_policy} if pull_policy else {}),
    }
    return {
        "metadata": template["metadata"] | {"labels": template["metadata"]["labels"] | {names.LABEL_ENGINE: names.SPARK}},
        "spec": pod
        | {"subdomain": service, "containers": [container], "volumes": [*pod["volumes"], {"name": _SECRET_VOLUME, "secret": secret}]},
    }
