"""The interface of a test cluster. There are three kinds.

Cluster            an existing one, given by DATAPREP_TEST_KUBECONFIG: kubectl and kwok, nothing below the API
├── KindCluster    created by kind, if a Docker engine answers
└── LocalCluster   assembled by this package on this machine (`local`)
"""

import json
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kubecluster import binaries, daemons, network, state
from kubecluster.commands import run
from kubecluster.errors import NotSupported

FAKE_NODE_LABEL = "kwok.x-k8s.io/node"
KWOK_DAEMON = "kwok"
FAKE_STAGES = Path(__file__).resolve().parent / "stages.yaml"


@dataclass(frozen=True)
class Cluster:
    """A running cluster. On an existing cluster, operations that need more than the Kubernetes API raise NotSupported."""

    kubeconfig: Path
    bridge_ip: str | None
    logs: Path

    def kubectl(self, *words: str, stdin: str | None = None, timeout_seconds: float = 120) -> str:
        """Run kubectl as the administrator and return its output."""
        return run([self._program("kubectl"), f"--kubeconfig={self.kubeconfig}", *words], stdin=stdin, timeout_seconds=timeout_seconds)

    @property
    def helm(self) -> Path:
        """The path of Helm, built on first use."""
        return self._program("helm")

    def _program(self, name: str) -> Path:
        # An installed program is preferred: the owner of an existing cluster has installed the version that matches the cluster.
        found = shutil.which(name)
        return Path(found) if found else binaries.built(name)

    @property
    def nodes(self) -> list[str]:
        """The names of all real nodes."""
        items = json.loads(self.kubectl("get", "nodes", "--output=json"))["items"]
        return sorted(item["metadata"]["name"] for item in items if FAKE_NODE_LABEL not in item["metadata"].get("annotations", {}))

    def wait_ready(self, *names: str, timeout_seconds: float = 120) -> None:
        """Wait until the nodes are Ready."""
        self.kubectl(
            "wait",
            "--for=condition=Ready",
            f"--timeout={timeout_seconds:.0f}s",
            *(f"node/{name}" for name in names),
            timeout_seconds=timeout_seconds + 10,
        )

    def set_capacity(self, node: str, resources: Mapping[str, int]) -> None:
        """Let a node advertise extended resources that it doesn't have, for example {"nvidia.com/gpu": 2}."""
        self._patch_capacity(node, {name: str(count) for name, count in resources.items()})

    def remove_capacity(self, node: str, *names: str) -> None:
        """Make a node stop advertising these resources."""
        self._patch_capacity(node, dict.fromkeys(names))

    def _patch_capacity(self, node: str, resources: Mapping[str, str | None]) -> None:
        patch = json.dumps({"status": {"capacity": resources, "allocatable": resources}})
        self.kubectl("patch", f"node/{node}", "--subresource=status", "--type=merge", f"--patch={patch}")

    def load_image(self, archive: Path, name: str) -> None:  # noqa: ARG002 -- used by subclasses
        """Make an image available to all nodes under this name. Pods need `imagePullPolicy: IfNotPresent` or `Never`."""
        raise NotSupported(f"Cannot load {name}: push it to a registry that the given cluster pulls from.")

    def add_node(self, name: str, *, labels: Mapping[str, str] | None = None, taints: Sequence[str] = ()) -> None:  # noqa: ARG002
        """Add a real node; a taint is written `key=value:Effect`."""
        raise NotSupported(f"Cannot add {name}: the tests did not start the nodes of this cluster.")

    def remove_node(self, name: str) -> None:
        """Stop a node for good and delete it from the API."""
        raise NotSupported(f"Cannot remove {name}: the tests did not start the nodes of this cluster.")

    def stop_kubelet(self, node: str) -> None:
        """Stop a node's kubelet. The node's containers keep running, as in a network partition."""
        raise NotSupported(f"Cannot stop the kubelet of {node}: the tests did not start the nodes of this cluster.")

    def start_kubelet(self, node: str) -> None:
        """Start the kubelet again and wait until the node is Ready."""
        raise NotSupported(f"Cannot start the kubelet of {node}: the tests did not start the nodes of this cluster.")

    def kill_node(self, node: str) -> None:
        """Kill a node and all its containers, as a power cut would."""
        raise NotSupported(f"Cannot kill {node}: the tests did not start the nodes of this cluster.")

    def stop_api_server(self) -> None:
        """Kill the API server; everything else keeps running."""
        raise NotSupported("Cannot stop the API server: the tests did not start it.")

    def start_api_server(self) -> None:
        """Start the API server again and wait until it is ready."""
        raise NotSupported("Cannot start the API server: the tests did not start it.")

    def stop_etcd(self) -> None:
        """Kill etcd."""
        raise NotSupported("Cannot stop etcd: the tests did not start it.")

    def start_etcd(self) -> None:
        """Start etcd again with its data and wait until the API server answers."""
        raise NotSupported("Cannot start etcd: the tests did not start it.")

    def audited(self) -> Iterator[dict[str, Any]]:
        """Return the requests by service accounts as audit events, oldest first."""
        raise NotSupported("Cannot return audit events: this cluster has no audit log for the tests.")

    def add_host(self, name: str, ip: str) -> None:
        """Let pods resolve this host name to an address."""
        raise NotSupported(f"Cannot give {ip} the name {name}: the tests did not start this cluster's name server.")

    def down(self) -> None:
        """Stop the cluster, if we started it."""

    @contextmanager
    def fake_nodes(self, count: int, *, stages: Path = FAKE_STAGES) -> Iterator[list[str]]:
        """Simulate nodes and their pods with kwok while the block runs.

        The nodes are tainted `kwok.x-k8s.io/node=fake:NoSchedule` and labelled `type=kwok`, so only pods that ask for them are scheduled
        there. Real nodes keep working.
        """
        names = [f"fake{number}" for number in range(count)]
        self.kubectl("apply", "--server-side", "--filename=-", stdin="\n---\n".join(json.dumps(_fake_node(name)) for name in names))
        self.start_kwok(stages=stages)
        try:
            self.wait_ready(*names)
            yield names
        finally:
            self.kubectl("delete", "nodes", *names)
            self.stop_kwok()

    def start_kwok(self, *, stages: Path = FAKE_STAGES) -> None:
        """Start kwok, which simulates every node annotated `kwok.x-k8s.io/node: fake`.

        The stages define what happens to nodes and pods. By default a pod runs immediately, and succeeds immediately if a Job owns it.
        """
        command: list[str | Path] = [
            binaries.built("kwok"),
            f"--kubeconfig={self.kubeconfig}",
            f"--config={stages}",
            f"--cidr={network.FAKE_POD_RANGE}",
            f"--manage-nodes-with-annotation-selector={FAKE_NODE_LABEL}=fake",
            "--server-address=127.0.0.1:10247",
            "--node-ip=127.0.0.1",
            "--node-lease-duration-seconds=40",
        ]
        with state.changing() as written:
            if (running := written.daemons.get(KWOK_DAEMON)) is None or not running.alive():
                written.daemons[KWOK_DAEMON] = daemons.start(command, log=self.logs / "kwok.log")

    def stop_kwok(self) -> None:
        """Stop kwok. Its nodes become NotReady, like any node without a heartbeat."""
        with state.changing() as written:
            if running := written.daemons.pop(KWOK_DAEMON, None):
                daemons.stop([running])


def _fake_node(name: str) -> dict[str, object]:
    resources = {"cpu": "64", "memory": "256Gi", "pods": "1000"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "annotations": {FAKE_NODE_LABEL: "fake"},
            "labels": {"type": "kwok", "kubernetes.io/hostname": name, "kubernetes.io/os": "linux"},
        },
        "spec": {"taints": [{"key": FAKE_NODE_LABEL, "value": "fake", "effect": "NoSchedule"}]},
        "status": {"capacity": resources, "allocatable": resources},
    }
