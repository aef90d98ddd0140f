"""Installs the operator from its chart, with images built from the Dockerfile."""

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kubecluster import Cluster, build_image
from kubecluster.commands import run

ROOT = Path(__file__).resolve().parents[3]
CHART = ROOT / "charts" / "dataprep-operator"
TAG = "test"
OPERATOR_IMAGE, CONVERTER_IMAGE, SPARK_IMAGE = "dataprep-operator", "dataprep-converter", "dataprep-spark"
_INPUTS = {
    "operator": ["Dockerfile", "pyproject.toml", "requirements/operator.txt", "api", "operator"],
    "converter": ["Dockerfile", "pyproject.toml", "requirements/converter.txt", "api", "converter"],
    "spark": ["Dockerfile", "pyproject.toml", "requirements/converter.txt", "requirements/spark.txt", "api", "converter"],
}


def build() -> dict[str, Path]:
    """Builds the operator's and the converter's image if their inputs have changed; returns docker-archives by the image's name and tag."""
    return {f"{image}:{TAG}": _build(target, image) for target, image in (("operator", OPERATOR_IMAGE), ("converter", CONVERTER_IMAGE))}


def load_spark(cluster: Cluster) -> None:
    """Builds the image of Spark clusters, and loads it into the nodes. Only the tests that need this image do this, because it is large."""
    cluster.load_image(_build("spark", SPARK_IMAGE), f"{SPARK_IMAGE}:{TAG}")


def _build(target: str, image: str) -> Path:
    return build_image(dockerfile=ROOT / "Dockerfile", context=ROOT, tag=f"{image}:{TAG}", target=target, inputs=_INPUTS[target])


def build_and_load(cluster: Cluster) -> None:
    """Builds both images and loads them into the nodes."""
    for image, archive in build().items():
        cluster.load_image(archive, image)


@dataclass(frozen=True)
class Installation:
    """A release of the chart."""

    cluster: Cluster
    namespace: str = "dataprep-system"
    release: str = "dataprep"

    def helm(self, *words: str, timeout_seconds: float = 180) -> str:
        """Runs Helm in the release's namespace."""
        return run(
            [self.cluster.helm, f"--kubeconfig={self.cluster.kubeconfig}", f"--namespace={self.namespace}", *words],
            timeout_seconds=timeout_seconds,
        )

    def install(self, values: Mapping[str, Any] | None = None) -> None:
        """`helm upgrade --install --wait` with the test's images, overridden by `values`."""
        images = {"operator": OPERATOR_IMAGE, "converter": CONVERTER_IMAGE}
        # Support for Kueue and Spark is always on, so the tests with Kueue or Spark don't need a separate release. In a cluster without
        # Kueue or without Spark's image, this support has no effect.
        given = {
            "kueue": {"enabled": True},
            "spark": {"enabled": True},
            "image": {
                **{name: {"repository": image, "tag": TAG, "pullPolicy": "IfNotPresent"} for name, image in images.items()},
                "spark": {"repository": SPARK_IMAGE, "tag": TAG},
            },
        }
        merged = json.dumps(_over(given, values or {}))
        self.helm(
            "upgrade",
            "--install",
            self.release,
            str(CHART),
            "--create-namespace",
            "--take-ownership",
            "--wait",
            "--timeout=120s",
            f"--set-json={_as_set(merged)}",
        )

    def uninstall(self) -> None:
        """Removes the release. The CRD stays, as it does for users."""
        self.helm("uninstall", self.release, "--wait", "--ignore-not-found")

    def pods(self) -> list[dict[str, Any]]:
        """The operator's pods, without those that are terminating."""
        found = self.cluster.kubectl(
            "--namespace", self.namespace, "get", "pods", "--selector=app.kubernetes.io/name=dataprep-operator", "--output=json"
        )
        return [pod for pod in json.loads(found)["items"] if not pod["metadata"].get("deletionTimestamp")]

    def logs(self) -> str:
        """The operator's logs."""
        return "\n".join(
            self.cluster.kubectl("--namespace", self.namespace, "logs", pod["metadata"]["name"], "--tail=-1") for pod in self.pods()
        )

    def kill(self) -> None:
        """Kills the operator without a grace period, as a power failure would. The Deployment starts another pod."""
        for pod in self.pods():
            self.cluster.kubectl("--namespace", self.namespace, "delete", "pod", pod["metadata"]["name"], "--grace-period=0", "--force")

    def wait_ready(self, *, seconds: float = 90) -> None:
        """Waits until all replicas of the Deployment are ready."""
        self.cluster.kubectl(
            "--namespace", self.namespace, "rollout", "status", "deployment", f"--timeout={seconds:.0f}s", timeout_seconds=seconds + 10
        )

    def wait_gone(self, names: set[str], *, seconds: float = 60) -> None:
        """Waits until all of these pods are gone."""
        deadline = time.monotonic() + seconds
        while names & {pod["metadata"]["name"] for pod in self.pods()}:
            if time.monotonic() > deadline:
                raise TimeoutError(f"{names} are still there after {seconds:.0f} s")
            time.sleep(0.2)


def install_operator(cluster: Cluster) -> Installation:
    """Installs this working copy's operator for the whole cluster, with two replicas as in production."""
    build_and_load(cluster)
    installation = Installation(cluster)
    installation.install()
    return installation


def _over(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    merged = dict(below)
    for key, value in above.items():
        merged[key] = _over(merged[key], value) if isinstance(value, Mapping) and isinstance(merged.get(key), Mapping) else value
    return merged


def _as_set(document: str) -> str:
    """Converts a document to Helm's --set-json format, `key=json` pairs."""
    return ",".join(f"{key}={json.dumps(value)}" for key, value in json.loads(document).items())
