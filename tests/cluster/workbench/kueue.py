"""Runs Kueue, which is built from its Go module and installed with its own manifests, for the Jobs of selected namespaces."""

import base64
import json
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import yaml

from kubecluster import Cluster, binaries, certificates, program_image, state
from kubecluster.errors import ClusterError

Document = dict[str, Any]  # Any: YAML

NAMESPACE: Final = "kueue-system"
MANAGED: Final = "managed-by-kueue"
"""The label of the namespaces whose Jobs Kueue manages. Its value is `yes`."""
FLAVOR_LABEL: Final = "test/flavor"
"""The node selector that Kueue adds to admitted pods."""
FLAVOR: Final = "spot"
_NAMESPACE_LABEL: Final = "test/namespace"
IMAGE: Final = "dataprep.test/kueue:1"
_WEBHOOK_SECONDS: Final = 60
# The webhooks to install. Kueue's other webhooks belong to integrations that are disabled here, so nothing would serve them.
_WEBHOOKS: Final = ("job.kb.io", "clusterqueue.kb.io", "cohort.kb.io", "resourceflavor.kb.io", "workload.kb.io", "localqueue.kb.io")
_CONFIGURATION: Final = {
    "apiVersion": "config.kueue.x-k8s.io/v1beta2",
    "kind": "Configuration",
    "health": {"healthProbeBindAddress": ":8081"},
    "metrics": {"bindAddress": ":8443"},
    "webhook": {"port": 9443},
    "leaderElection": {"leaderElect": False},
    # If Kueue generated its own certificates, it would have to wait a minute or more until the kubelet mounts them.
    "internalCertManagement": {"enable": False},
    "integrations": {"frameworks": ["batch/job"]},
    "managedJobsNamespaceSelector": {"matchLabels": {MANAGED: "yes"}},
}
_CERTIFICATE_FOLDERS: Final = ("/tmp/k8s-webhook-server/serving-certs", "/visibility", "/etc/kueue/metrics/certs")  # noqa: S108  # Kueue's own


def image() -> Path:
    """Build the image, and return its archive."""
    return program_image("kueue", name=IMAGE)


def install(cluster: Cluster) -> None:
    """Installs Kueue if it isn't installed yet, and gives every node Kueue's flavor."""
    with state.installing():
        if _is_installed(cluster):
            return
        cluster.load_image(image(), IMAGE)
        manifests = _manifests(cluster)
        cluster.kubectl("apply", "--server-side", "--force-conflicts", "--filename=-", stdin=_as_text(manifests))
        cluster.kubectl("--namespace", NAMESPACE, "rollout", "status", "deployment", "--timeout=120s", timeout_seconds=130)
        services = [each["metadata"]["name"] for each in manifests if each["kind"] == "APIService"]
        cluster.kubectl("wait", "--for=condition=Available", "--timeout=60s", *(f"apiservice/{name}" for name in services))
        cluster.kubectl("label", "--overwrite", "nodes", "--all", f"{FLAVOR_LABEL}={FLAVOR}")
        # Only one process creates the flavor, because if two processes apply a new object at the same time, one of them fails.
        flavor = _kueue("ResourceFlavor", FLAVOR, {"nodeLabels": {FLAVOR_LABEL: FLAVOR}})
        _apply_when_answered(cluster, flavor)


def _apply_when_answered(cluster: Cluster, document: Document) -> None:
    """Applies an object that Kueue's webhook checks. On a busy machine, the webhook may refuse connections after the Deployment is ready."""
    deadline = time.monotonic() + _WEBHOOK_SECONDS
    while True:
        try:
            cluster.kubectl("apply", "--filename=-", stdin=json.dumps(document))
        except ClusterError as exc:
            if "failed calling webhook" not in str(exc) or time.monotonic() > deadline:
                raise
            time.sleep(0.5)
        else:
            return


def uninstall(cluster: Cluster) -> None:
    """Removes Kueue, if it is installed, and its API. If the API stayed without a server, namespaces couldn't be deleted."""
    if not _is_installed(cluster):
        return
    cluster.kubectl("label", "nodes", "--all", f"{FLAVOR_LABEL}-")
    # These objects have Kueue's finalizers, so they have to be deleted while Kueue is still running.
    cluster.kubectl("delete", "clusterqueues,resourceflavors,workloadpriorityclasses", "--all", "--timeout=60s")
    cluster.kubectl("delete", "--ignore-not-found", "--wait=false", "--filename=-", stdin=_as_text(_manifests(cluster)))


def delete_queues(cluster: Cluster, *, namespace: str) -> None:
    """Deletes the ClusterQueues that a namespace's LocalQueues refer to."""
    cluster.kubectl("delete", "clusterqueues", f"--selector={_NAMESPACE_LABEL}={namespace}", "--timeout=60s")


def _is_installed(cluster: Cluster) -> bool:
    return cluster.kubectl("get", "namespace", NAMESPACE, "--ignore-not-found", "--output=name") != ""


def _as_text(manifests: list[Document]) -> str:
    return "\n---\n".join(json.dumps(each) for each in manifests)


def queue(name: str, *, namespace: str, cpu: str) -> list[Document]:
    """A LocalQueue and its ClusterQueue, with a quota of `cpu` for the flavor that every node has.

    Jobs with a higher priority preempt the others.
    """
    return [
        _kueue(
            "ClusterQueue",
            f"{namespace}-{name}",
            {
                "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
                "preemption": {"withinClusterQueue": "LowerPriority"},
                "resourceGroups": [
                    {
                        "coveredResources": ["cpu", "memory"],
                        "flavors": [
                            {
                                "name": FLAVOR,
                                "resources": [{"name": "cpu", "nominalQuota": cpu}, {"name": "memory", "nominalQuota": "64Gi"}],
                            }
                        ],
                    }
                ],
            },
            labels={_NAMESPACE_LABEL: namespace},
        ),
        _kueue("LocalQueue", name, {"clusterQueue": f"{namespace}-{name}"}, namespace=namespace),
    ]


def priority(name: str, value: int) -> Document:
    """A priority that a job's label can name."""
    return {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "WorkloadPriorityClass", "metadata": {"name": name}, "value": value}


def _kueue(kind: str, name: str, spec: Document, *, namespace: str = "", labels: Mapping[str, str] | None = None) -> Document:
    metadata: Document = {"name": name, "labels": dict(labels or {})} | ({"namespace": namespace} if namespace else {})
    return {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": kind, "metadata": metadata, "spec": spec}


def _manifests(cluster: Cluster) -> list[Document]:
    """Kueue's `config/default` with our image, certificate and configuration."""
    authority, secret = _certificate()
    rendered = cluster.kubectl("kustomize", str(binaries.source("kueue", "sigs.k8s.io/kueue") / "config" / "default"))
    found: list[Document] = []
    for document in yaml.safe_load_all(rendered):
        match document["kind"]:
            case "Deployment":
                _change_pod(document["spec"]["template"]["spec"])
            case "ConfigMap":
                document["data"] = {"controller_manager_config.yaml": json.dumps(_CONFIGURATION)}
            case "Secret":
                document["data"] = secret
            case "CustomResourceDefinition" if webhook := (document["spec"].get("conversion") or {}).get("webhook"):
                webhook["clientConfig"]["caBundle"] = authority
            case "MutatingWebhookConfiguration" | "ValidatingWebhookConfiguration":
                document["webhooks"] = [each for each in document["webhooks"] if each["name"][1:] in _WEBHOOKS]
                for each in document["webhooks"]:
                    each["clientConfig"]["caBundle"] = authority
                    if each["name"].endswith("job.kb.io"):
                        each["namespaceSelector"] = {"matchLabels": {MANAGED: "yes"}}
        found.append(document)
    return found


def _change_pod(pod: Document) -> None:
    [container] = pod["containers"]
    container |= {"image": IMAGE, "imagePullPolicy": "IfNotPresent", "command": ["/kueue"]}
    container["resources"] = {"requests": {"cpu": "50m", "memory": "64Mi"}}
    container["readinessProbe"] |= {"initialDelaySeconds": 1, "periodSeconds": 1}
    container["volumeMounts"] = [each for each in container["volumeMounts"] if each["name"] == "manager-config"]
    container["volumeMounts"] += [{"name": "cert", "mountPath": folder, "readOnly": True} for folder in _CERTIFICATE_FOLDERS]
    pod["volumes"] = [each for each in pod["volumes"] if each["name"] != "visibility"]
    pod["securityContext"] |= {"runAsUser": 65532}


def _certificate() -> tuple[str, dict[str, str]]:
    """The CA, and the data of a Secret with the certificate that this CA signed for Kueue's services."""
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        certificates.create_authority(folder)
        services = [
            f"kueue-{name}.{NAMESPACE}.svc" for name in ("webhook-service", "visibility-server", "controller-manager-metrics-service")
        ]
        certificates.sign_server(folder, name="tls", addresses=["127.0.0.1"], dns_names=services)
        authority = base64.b64encode((folder / "ca.crt").read_bytes()).decode()
        return authority, {f"tls.{kind}": base64.b64encode((folder / f"tls.{kind}").read_bytes()).decode() for kind in ("crt", "key")}
