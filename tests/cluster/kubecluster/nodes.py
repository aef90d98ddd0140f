"""A real node with its own containerd and kubelet in its own folders.

Nodes can't share a containerd, because each kubelet kills the containers of pods that it doesn't know.
"""

import json
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from kubecluster import binaries, certificates, containerd, daemons, mounts, network
from kubecluster.controlplane import CLUSTER_DOMAIN, SERVER, Folders

KUBELET_PORT = 10250


@dataclass(frozen=True)
class Node:
    """The files and command lines of a node."""

    name: str
    ip: str
    folders: Folders

    @property
    def folder(self) -> Path:
        """Everything that this node writes."""
        return self.folders.run / self.name

    @property
    def containerd_daemon(self) -> str:
        """The name of this node's containerd among the daemons."""
        return f"{self.name}-containerd"

    @property
    def kubelet_daemon(self) -> str:
        """The name of this node's kubelet among the daemons."""
        return f"{self.name}-kubelet"

    def write_files(self, *, taints: Sequence[str]) -> None:
        """Write certificates and configurations."""
        network_folder = self.folder / "cni"
        network_folder.mkdir(parents=True, exist_ok=True)
        (network_folder / "10-bridge.conflist").write_text(json.dumps(_pod_network(self.folders.run / "addresses"), indent=1))
        containerd.write_configuration(self.folder, network=network_folder)
        serving, client = f"{self.name}-serving", f"{self.name}-client"
        pki = self.folders.pki
        certificates.sign_server(pki, name=serving, addresses=[self.ip], dns_names=[self.name])
        certificates.sign_client(pki, name=client, user=f"system:node:{self.name}", group="system:nodes")
        certificates.write_kubeconfig(pki, name=client, server=SERVER, target=self.folders.kubeconfig(client))
        (self.folder / "kubelet.json").write_text(json.dumps(_kubelet_configuration(self, taints=taints), indent=1))

    def kubelet(self) -> list[str | Path]:
        """The command line of kubelet."""
        return [
            binaries.path("kubelet"),
            f"--config={self.folder / 'kubelet.json'}",
            f"--kubeconfig={self.folders.kubeconfig(f'{self.name}-client')}",
            f"--root-dir={self.folder / 'kubelet'}",
            f"--cert-dir={self.folders.pki}",
            f"--hostname-override={self.name}",
            f"--node-ip={self.ip}",
        ]

    def import_image(self, archive: Path, *, name: str) -> None:
        """Unpack an image into this node under the name that pods use."""
        containerd.import_image(self.folder, archive, name=name)

    def kill_containers(self) -> None:
        """Kill all containers of this node. They may have outlived containerd, but containerd has recorded their ids."""
        tasks = self.folder / "state" / "io.containerd.runtime.v2.task" / "k8s.io"
        for bundle in tasks.iterdir() if tasks.is_dir() else ():
            daemons.kill_container(bundle.name)
            _remove_shim_socket(bundle)

    def remove(self) -> None:
        """Remove the files of this node after its processes have ended."""
        mounts.detach_below(self.folder)
        shutil.rmtree(self.folder, ignore_errors=True)


def _remove_shim_socket(bundle: Path) -> None:
    # Shims keep their sockets outside the state folder, and a killed shim does not remove its socket.
    address = bundle / "address"
    if address.exists():
        Path(address.read_text().removeprefix("unix://")).unlink(missing_ok=True)


def _pod_network(addresses: Path) -> dict[str, object]:
    # The module `network` creates the bridge. The plugin's option isGateway would create it too, but also enable forwarding
    # for the whole machine.
    addressing = {
        "type": "host-local",
        "dataDir": str(addresses),
        "ranges": [
            [
                {
                    "subnet": network.BRIDGE_RANGE,
                    "rangeStart": network.FIRST_POD_IP,
                    "rangeEnd": network.LAST_POD_IP,
                    "gateway": network.BRIDGE_IP,
                }
            ]
        ],
        "routes": [{"dst": "0.0.0.0/0", "gw": network.BRIDGE_IP}],
    }
    bridge = {"type": "bridge", "bridge": network.BRIDGE, "isGateway": False, "ipMasq": False, "hairpinMode": True, "ipam": addressing}
    return {"cniVersion": "0.4.0", "name": "dataprep-test", "plugins": [bridge]}


def _kubelet_configuration(node: Node, *, taints: Sequence[str]) -> dict[str, object]:
    pki = node.folders.pki
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "address": node.ip,
        "port": KUBELET_PORT,
        "healthzBindAddress": node.ip,
        "tlsCertFile": str(pki / f"{node.name}-serving.crt"),
        "tlsPrivateKeyFile": str(pki / f"{node.name}-serving.key"),
        "authentication": {
            "anonymous": {"enabled": False},
            "webhook": {"enabled": True},
            "x509": {"clientCAFile": str(pki / "ca.crt")},
        },
        "authorization": {"mode": "Webhook"},
        "containerRuntimeEndpoint": f"unix://{containerd.socket(node.folder)}",
        "podLogsDir": str(node.folder / "pods"),
        "clusterDNS": [network.BRIDGE_IP],
        "clusterDomain": CLUSTER_DOMAIN,
        "resolvConf": "",
        "registerWithTaints": [_taint(text) for text in taints],
        # Keep kubelet from changing the machine's settings, because the machine doesn't belong to the node.
        "cgroupDriver": "cgroupfs",
        "cgroupsPerQOS": False,
        "enforceNodeAllocatable": [],
        "failCgroupV1": False,
        "failSwapOn": False,
        "oomScoreAdj": 0,
        "makeIPTablesUtilChains": False,
        # The disk doesn't belong to the node either, so even if the disk is full, kubelet must not evict pods or delete images.
        "evictionHard": {"memory.available": "0%", "nodefs.available": "0%", "nodefs.inodesFree": "0%", "imagefs.available": "0%"},
        "imageGCHighThresholdPercent": 100,
        "registryPullQPS": 0,
        "nodeStatusUpdateFrequency": "4s",
        "nodeLeaseDurationSeconds": 20,
        "maxPods": 250,
    }


def _taint(text: str) -> dict[str, str]:
    name, _, effect = text.rpartition(":")
    key, _, value = name.partition("=")
    return {"key": key, "value": value, "effect": effect}
