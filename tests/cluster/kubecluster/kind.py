"""A cluster created by kind, if a Docker engine answers."""

import json
import shutil
from dataclasses import dataclass
from pathlib import Path

from kubecluster.cluster import Cluster
from kubecluster.commands import attempt, run
from kubecluster.errors import NotSupported
from kubecluster.progress import report
from kubecluster.state import run_dir

NAME = "dataprep-test"
CONFIGURATION = """
apiVersion: kind.x-k8s.io/v1alpha4
kind: Cluster
nodes: [{role: control-plane}, {role: worker}, {role: worker}]
"""


@dataclass(frozen=True)
class KindCluster(Cluster):
    """A cluster whose nodes are Docker containers."""

    def load_image(self, archive: Path, name: str) -> None:  # noqa: ARG002 -- kind keeps the names in the archive
        """Load a docker-archive into all nodes under the names that it contains."""
        run(["kind", "load", "image-archive", archive, "--name", NAME], timeout_seconds=600)

    def stop_kubelet(self, node: str) -> None:
        """Stop a node's kubelet."""
        run(["docker", "exec", node, "systemctl", "stop", "kubelet"])

    def start_kubelet(self, node: str) -> None:
        """Start the kubelet again and wait until the node is Ready."""
        run(["docker", "exec", node, "systemctl", "start", "kubelet"])
        self.wait_ready(node)

    def kill_node(self, node: str) -> None:
        """Kill the node's container."""
        run(["docker", "kill", node])

    def add_host(self, name: str, ip: str) -> None:
        """Raise NotSupported. In a kind cluster, pods have to use the address instead of a name."""
        raise NotSupported(f"Cannot give {ip} the name {name} in a kind cluster: use the address.")

    def down(self) -> None:
        """Delete the cluster."""
        down()


def answers() -> bool:
    """Say whether a Docker engine answers and kind is installed."""
    return shutil.which("docker") is not None and shutil.which("kind") is not None and attempt(["docker", "info"]).returncode == 0


def exists() -> bool:
    """Say whether the test cluster exists."""
    return NAME in run(["kind", "get", "clusters"]).split()


def up() -> KindCluster:
    """Return the test cluster, creating it if necessary."""
    folder = run_dir() / "kind"
    folder.mkdir(parents=True, exist_ok=True)
    kubeconfig = folder / "kubeconfig"
    if not exists():
        report("kind create cluster")
        run(
            ["kind", "create", "cluster", "--name", NAME, "--config", "-", "--kubeconfig", kubeconfig, "--wait", "180s"],
            stdin=CONFIGURATION,
            timeout_seconds=600,
        )
    elif not kubeconfig.exists():
        run(["kind", "export", "kubeconfig", "--name", NAME, "--kubeconfig", kubeconfig])
    return KindCluster(kubeconfig=kubeconfig, bridge_ip=_gateway(), logs=folder)


def down() -> None:
    """Delete the test cluster."""
    run(["kind", "delete", "cluster", "--name", NAME], timeout_seconds=300)


def _gateway() -> str | None:
    networks = json.loads(run(["docker", "network", "inspect", "kind"]))
    gateways = [config.get("Gateway", "") for network in networks for config in network["IPAM"]["Config"]]
    return next((gateway for gateway in gateways if "." in gateway), None)
