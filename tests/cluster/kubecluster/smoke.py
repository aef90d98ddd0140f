"""Checks, from inside an Indexed Job of restricted pods, that the cluster does what the tests rely on."""

import http.server
import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from kubecluster import images
from kubecluster.cluster import Cluster
from kubecluster.errors import StartFailed
from kubecluster.progress import report, show

NAMESPACE = "kubecluster-smoke"
IMAGE = "localhost/kubecluster-smoke:1"
AUDIENCE = "kubecluster-smoke"
COMPLETIONS = 4
EXPECTED = ("dns", "api", "issuer", "own service", "host server", "token", "read-only root", "user")
RESOURCES: tuple[dict[str, object], ...] = (
    {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": NAMESPACE, "labels": {"pod-security.kubernetes.io/enforce": "restricted"}},
    },
    {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "probe", "namespace": NAMESPACE},
        "spec": {"selector": {"job-name": "probe"}, "ports": [{"port": 8080}], "publishNotReadyAddresses": True},
    },
)
FOLDER = Path(__file__).resolve().parent / "probe"


def check(cluster: Cluster) -> None:
    """Run the job and print what its pods saw. Raise an error if anything is unexpected."""
    cluster.load_image(images.build_image(dockerfile=FOLDER / "Dockerfile", context=FOLDER, tag=IMAGE), IMAGE)
    report("image loaded")
    cluster.kubectl("delete", "namespace", NAMESPACE, "--ignore-not-found")
    with _host_server(cluster) as url:
        for resource in RESOURCES:
            cluster.kubectl("create", "--filename=-", stdin=json.dumps(resource))
        _wait_for_service_account(cluster)
        started = time.monotonic()
        cluster.kubectl("create", "--filename=-", stdin=json.dumps(_job(url)))
        cluster.kubectl("wait", f"--namespace={NAMESPACE}", "--for=condition=Complete", "--timeout=100s", "job/probe")
        report(f"{COMPLETIONS} pods in {time.monotonic() - started:.1f} s")
    show(cluster.kubectl("get", "pods", f"--namespace={NAMESPACE}", "--output=wide"))
    for index in range(COMPLETIONS):
        _check_index(cluster, index)
    cluster.kubectl("delete", "namespace", NAMESPACE, "--wait=false")


def _check_index(cluster: Cluster, index: int) -> None:
    selector = f"--selector=batch.kubernetes.io/job-completion-index={index}"
    seen = json.loads(cluster.kubectl("logs", f"--namespace={NAMESPACE}", selector))
    show(f"index {index}: {json.dumps(seen)}")
    if lacking := [name for name in EXPECTED if not str(seen.get(name, "")).startswith("ok")]:
        raise StartFailed(f"Expected index {index} to see {', '.join(lacking)}; got {seen}.")


def _wait_for_service_account(cluster: Cluster) -> None:
    cluster.kubectl(
        "wait", f"--namespace={NAMESPACE}", "--for=create", "--timeout=30s", "serviceaccount/default", "configmap/kube-root-ca.crt"
    )


@contextmanager
def _host_server(cluster: Cluster) -> Iterator[str]:
    """Serve a fixed word on the address that both pods and the host reach."""
    if cluster.bridge_ip is None:
        raise StartFailed("The check needs an address that pods can reach, but the given cluster has no such address.")
    server = http.server.ThreadingHTTPServer((cluster.bridge_ip, 0), _Hello)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://{cluster.bridge_ip}:{server.server_address[1]}/"
    finally:
        server.shutdown()
        server.server_close()


class _Hello(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"hello")

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 -- the signature of http.server
        """Stay silent."""


def _job(url: str) -> dict[str, object]:
    token = {"serviceAccountToken": {"path": "token", "audience": AUDIENCE, "expirationSeconds": 600}}
    container = {
        "name": "probe",
        "image": IMAGE,
        "imagePullPolicy": "Never",
        "env": [{"name": "HOST_URL", "value": url}, {"name": "AUDIENCE", "value": AUDIENCE}],
        "resources": {"requests": {"cpu": "50m", "memory": "64Mi"}, "limits": {"cpu": "1", "memory": "256Mi"}},
        "securityContext": {"allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True, "capabilities": {"drop": ["ALL"]}},
        "volumeMounts": [{"name": "token", "mountPath": "/var/run/smoke"}],
    }
    pod = {
        "restartPolicy": "Never",
        "containers": [container],
        "volumes": [{"name": "token", "projected": {"sources": [token]}}],
        "securityContext": {"runAsNonRoot": True, "runAsUser": 65532, "seccompProfile": {"type": "RuntimeDefault"}},
        "topologySpreadConstraints": [
            {
                "maxSkew": 1,
                "topologyKey": "kubernetes.io/hostname",
                "whenUnsatisfiable": "DoNotSchedule",
                "labelSelector": {"matchLabels": {"job-name": "probe"}},
            }
        ],
    }
    spec = {
        "completions": COMPLETIONS,
        "parallelism": COMPLETIONS,
        "completionMode": "Indexed",
        "backoffLimitPerIndex": 0,
        "template": {"spec": pod},
    }
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "probe", "namespace": NAMESPACE}, "spec": spec}
