"""Starts, changes and stops the cluster that this package assembles, and attaches to a running one.

Each step is recorded in `state` as it happens. `down` undoes all recorded steps, and so removes the remains of a killed test.
"""

import json
import os
import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from kubecluster import binaries, containerd, controlplane, daemons, images, mounts, network, packages, state, unpacked
from kubecluster.cluster import Cluster
from kubecluster.commands import attempt
from kubecluster.controlplane import Folders
from kubecluster.errors import ClusterUnavailable, StartFailed
from kubecluster.nodes import Node
from kubecluster.progress import report
from kubecluster.state import NodeState, State

PROGRAMS = ("kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubelet", "kube-proxy", "kubectl", "etcd", "coredns")
NODES = ("node0", "node1")
# kubelet, containerd and the network plugins create these folders regardless of their own settings.
FOREIGN_FOLDERS = ("/var/lib/kubelet", "/var/log/containers", "/var/lib/cni", "/run/containerd", "/run/runc")
ATTACH_SECONDS = 180
MEMORY_MEGABYTES = 2048
"""The limit of the control plane's tmpfs; a whole run of the tests writes about a quarter of it."""
_ESSENTIAL = ("etcd", "apiserver")


class LocalCluster(Cluster):
    """This machine's running cluster. Any number of processes can use it."""

    @property
    def folders(self) -> Folders:
        """The cluster's files."""
        return _folders()

    def load_image(self, archive: Path, name: str) -> None:
        """Unpack an image into every node, and remember it for future nodes."""
        with state.loading_images():
            written = _written()
            if written.images.get(name) == str(archive) and images.is_cached(archive):
                return
            with ThreadPoolExecutor() as pool:
                list(pool.map(lambda node: _node(node, written).import_image(archive, name=name), written.nodes))
            with state.changing() as changed:
                changed.images[name] = str(archive)

    def add_node(self, name: str, *, labels: Mapping[str, str] | None = None, taints: Sequence[str] = ()) -> None:
        """Add a real node with all loaded images and wait until it is Ready."""
        node = _prepare_node(name, taints=taints)
        _start_containerd(node)
        written = _written()
        for image, archive in written.images.items():
            if archive != written.unpacked_images.get(image):
                node.import_image(Path(archive), name=image)
        _start_kubelet(node)
        self._wait_registered(name)
        if labels:
            self.kubectl("label", "--overwrite", f"node/{name}", *(f"{key}={value}" for key, value in labels.items()))
        self.wait_ready(name)

    def remove_node(self, name: str) -> None:
        """Stop a node with all its containers, delete it from the API and remove its files."""
        node = _node(name, _written())
        self.kill_node(name)
        self.kubectl("delete", f"node/{name}", "--ignore-not-found")
        with state.changing() as written:
            del written.nodes[name]
        attempt(["ip", "address", "delete", f"{node.ip}/32", "dev", network.BRIDGE])
        node.remove()

    def stop_kubelet(self, node: str) -> None:
        """Stop a node's kubelet. The node's containers keep running, as in a network partition."""
        _stop_daemons([f"{node}-kubelet"], grace_seconds=0)

    def start_kubelet(self, node: str) -> None:
        """Start the kubelet, and containerd if it died. Wait until the node is Ready with its former capacity."""
        here = _node(node, _written())
        _start_containerd(here)
        _start_kubelet(here)
        self._wait_registered(node)
        self._wait_heard_again(node)
        if capacity := _written().nodes[node].capacity:
            super()._patch_capacity(node, capacity)

    def kill_node(self, node: str) -> None:
        """Kill kubelet, containerd and every container of a node at once, as a power cut would."""
        here = _node(node, _written())
        _stop_daemons([here.kubelet_daemon, here.containerd_daemon], grace_seconds=0)
        here.kill_containers()

    def stop_api_server(self) -> None:
        """Kill the API server; everything else keeps running."""
        _stop_daemons(["apiserver"], grace_seconds=0)

    def start_api_server(self) -> None:
        """Start the API server again and wait until it is ready."""
        _start_daemon("apiserver", controlplane.apiserver(self.folders))
        daemons.wait_until(
            lambda: self._succeeds("get", "--raw=/readyz"), what="the API server to be ready", log=self.logs / "apiserver.log"
        )

    def stop_etcd(self) -> None:
        """Kill etcd."""
        _stop_daemons(["etcd"], grace_seconds=0)

    def start_etcd(self) -> None:
        """Start etcd again with its data and wait until the API server answers."""
        _start_daemon("etcd", controlplane.etcd(self.folders))
        daemons.wait_until(lambda: self._succeeds("get", "--raw=/readyz"), what="the API server to reach etcd", log=self.logs / "etcd.log")

    def audited(self) -> Iterator[dict[str, Any]]:
        """Return the requests by service accounts as audit events, oldest first."""
        rotated = sorted(self.folders.memory.glob("audit-*.log"))
        for file in [*rotated, self.folders.audit]:
            with file.open(encoding="utf-8") as lines:
                yield from map(json.loads, lines)

    def add_host(self, name: str, ip: str) -> None:
        """Let pods resolve this host name to an address. This takes effect after a second."""
        with self.folders.hosts.open("a") as hosts:
            hosts.write(f"{ip} {name}\n")

    def down(self) -> None:
        """Stop the cluster and restore the machine's settings."""
        down()

    def _patch_capacity(self, node: str, resources: Mapping[str, str | None]) -> None:
        super()._patch_capacity(node, resources)
        # A restarted kubelet forgets extended resources that no device plugin provides.
        with state.changing() as written:
            if known := written.nodes.get(node):
                kept = {**known.capacity, **resources}
                known.capacity = {name: count for name, count in kept.items() if count is not None}

    def _program(self, name: str) -> Path:
        return binaries.built(name)

    def _wait_registered(self, name: str) -> None:
        found = ["get", f"node/{name}"]
        daemons.wait_until(lambda: self._succeeds(*found), what=f"node {name} to register", log=self.logs / f"{name}-kubelet.log")

    def _wait_heard_again(self, name: str) -> None:
        # After a short silence a node still counts as Ready, so only a renewed lease shows that it is back.
        lease = ["get", f"lease/{name}", "--namespace=kube-node-lease", "--output=jsonpath={.spec.renewTime}"]
        before = self.kubectl(*lease)
        daemons.wait_until(
            lambda: self.kubectl(*lease) != before, what=f"node {name} to renew its lease", log=self.logs / f"{name}-kubelet.log"
        )
        self.wait_ready(name)

    def _succeeds(self, *words: str) -> bool:
        return _kubectl_succeeds(self.kubeconfig, *words)


def missing() -> list[str]:
    """Return what this machine lacks for a local cluster."""
    lacks = []
    if os.uname().sysname != "Linux":
        lacks.append("Linux")
    if os.geteuid() != 0:
        lacks.append("root")
    if shutil.which("go") is None:
        lacks.append("Go (`go` on PATH), which builds the programs of Kubernetes")
    if (names := packages.missing()) and not packages.installable():
        lacks.append(f"the packages {' '.join(names)}")
    return lacks


def attach() -> LocalCluster | None:
    """Return this machine's running cluster, or None if there is none.

    On a busy machine the API server can be slow to respond, so this function waits for a while. If it gave up too early, the caller might
    replace the running cluster with a new one.
    """
    deadline = time.monotonic() + ATTACH_SECONDS
    while (written := state.read()) is not None and written.ready and written.of_this_boot():
        if _kubectl_succeeds(_folders().kubeconfig("admin"), "get", "--raw=/readyz"):
            return _cluster()
        if time.monotonic() > deadline or not all(name in written.daemons and written.daemons[name].alive() for name in _ESSENTIAL):
            return None
        time.sleep(1)
    return None


def ended_daemons() -> str:
    """Return the names of daemons that have ended unexpectedly, with the ends of their logs; empty if all are running."""
    written = state.read()
    ended = [] if written is None else [name for name, daemon in written.daemons.items() if not daemon.alive()]
    return "".join(f"{name} has ended; the end of its log:\n{daemons.end_of(_folders().logs / f'{name}.log')}\n" for name in ended)


def up(preloaded: Mapping[str, Path]) -> LocalCluster:
    """Return this machine's running cluster, starting it if necessary. All nodes have the given images, a mapping of names to archives."""
    if lacks := missing():
        raise ClusterUnavailable(f"A cluster on this machine needs {', '.join(lacks)}.")
    with state.starting_or_stopping():
        if running := attach():
            return running
        packages.install()
        _clean()
        # Check this before recording any state, so that a clean-up never removes another program's resources.
        network.refuse_overlaps()
        binaries.build(PROGRAMS)
        try:
            return _start(preloaded)
        except BaseException:
            report("the cluster did not start; its logs stay in " + str(_folders().logs))
            _stop_all(keep_logs=True)
            raise


def down() -> None:
    """Stop what `up` started, including the remains of a crash."""
    with state.starting_or_stopping():
        _clean()


def _start(preloaded: Mapping[str, Path]) -> LocalCluster:
    folders = _folders()
    with state.changing() as written:
        written.sysctls = network.read_sysctls()
        written.made_folders = [folder for folder in FOREIGN_FOLDERS if not Path(folder).exists()]
    archives = {images.PAUSE_IMAGE: images.pause_image(), **preloaded}
    filled = unpacked.folder(archives)
    with state.changing() as written:
        written.unpacked = str(filled)
        written.images = {name: str(archive) for name, archive in archives.items()}
        written.unpacked_images = dict(written.images)
    report("network and certificates")
    network.create()
    mounts.mount_memory(folders.memory, megabytes=MEMORY_MEGABYTES)
    controlplane.write_files(folders)
    _start_daemon("etcd", controlplane.etcd(folders))
    report("control plane")
    _start_daemon("apiserver", controlplane.apiserver(folders))
    # Prepare the nodes while the API server starts.
    nodes = [_prepare_node(name) for name in NODES]
    daemons.weigh_containers()
    for node in nodes:
        _start_containerd(node)
    cluster = _cluster()
    daemons.wait_until(
        lambda: cluster._succeeds("get", "--raw=/readyz"), what="the API server to be ready", log=folders.logs / "apiserver.log"
    )
    _start_daemon("controller-manager", controlplane.controller_manager(folders))
    _start_daemon("scheduler", controlplane.scheduler(folders))
    _start_daemon("proxy", controlplane.proxy(folders))
    report("nodes")
    for node in nodes:
        _start_kubelet(node)
    cluster.kubectl("apply", "--filename=-", stdin=controlplane.COREDNS_ROLE)
    _start_daemon("coredns", controlplane.coredns(folders))
    for name in NODES:
        cluster._wait_registered(name)
    cluster.wait_ready(*NODES)
    daemons.wait_until(
        lambda: cluster._succeeds("get", "serviceaccount/default"),
        what="the default service account",
        log=folders.logs / "controller-manager.log",
    )
    with state.changing() as written:
        written.ready = True
    report("ready")
    return cluster


def _clean() -> None:
    if state.read() is not None:
        report("stopping the cluster")
    _stop_all(keep_logs=False)


def _stop_all(*, keep_logs: bool) -> None:
    written = state.read()
    if written is None:
        return
    folders = _folders()
    if written.of_this_boot():
        daemons.stop(written.daemons.values(), grace_seconds=1)
        for name in written.nodes:
            _node(name, written).kill_containers()
        daemons.kill_leftovers()
        network.remove()
        for sysctl, value in written.sysctls.items():
            network.write_sysctl(sysctl, value)
    mounts.detach_below(folders.run)
    for made in written.made_folders:
        shutil.rmtree(made, ignore_errors=True)
    kept = {"cluster.lock", "state.lock", "images.lock", "nodes.lock", *(["logs"] if keep_logs else [])}
    for path in folders.run.iterdir():
        if path.name not in kept and path.name != "state.json":
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    # The state is removed last, so that the next start can finish a clean-up that was interrupted.
    (folders.run / "state.json").unlink(missing_ok=True)


def _prepare_node(name: str, *, taints: Sequence[str] = ()) -> Node:
    with state.changing() as written:
        used = {node.ip for node in written.nodes.values()}
        ip = next(ip for ip in map(network.node_ip, range(200)) if ip not in used)
        written.nodes[name] = NodeState(ip=ip, taints=list(taints))
    network.add_address(ip)
    node = Node(name=name, ip=ip, folders=_folders())
    node.write_files(taints=taints)
    unpacked.copy(Path(_written().unpacked), containerd.root(node.folder))
    return node


def _start_containerd(node: Node) -> None:
    if (running := _written().daemons.get(node.containerd_daemon)) and running.alive():
        return
    _start_daemon(node.containerd_daemon, containerd.command(node.folder))
    log = node.folders.logs / f"{node.containerd_daemon}.log"
    daemons.wait_until(lambda: containerd.answers(node.folder), what=f"containerd of {node.name}", log=log)


def _start_kubelet(node: Node) -> None:
    if (running := _written().daemons.get(node.kubelet_daemon)) and running.alive():
        return
    _start_daemon(node.kubelet_daemon, node.kubelet())


def _start_daemon(name: str, command: Sequence[str | Path]) -> None:
    with state.changing() as written:
        written.daemons[name] = daemons.start(command, log=_folders().logs / f"{name}.log")


def _stop_daemons(names: Sequence[str], *, grace_seconds: float) -> None:
    with state.changing() as written:
        found = [written.daemons.pop(name) for name in names if name in written.daemons]
    daemons.stop(found, grace_seconds=grace_seconds)


def _kubectl_succeeds(kubeconfig: Path, *words: str) -> bool:
    kubectl = binaries.path("kubectl")
    if not kubectl.exists() or not kubeconfig.exists():
        return False
    return attempt([kubectl, f"--kubeconfig={kubeconfig}", "--request-timeout=5s", *words]).returncode == 0


def _cluster() -> LocalCluster:
    return LocalCluster(kubeconfig=_folders().kubeconfig("admin"), bridge_ip=network.BRIDGE_IP, logs=_folders().logs)


def _folders() -> Folders:
    return Folders(run=state.run_dir())


def _node(name: str, written: State) -> Node:
    if name not in written.nodes:
        raise StartFailed(f"No node named {name!r}; known: {', '.join(sorted(written.nodes))}.")
    return Node(name=name, ip=written.nodes[name].ip, folders=_folders())


def _written() -> State:
    written = state.read()
    if written is None:
        raise StartFailed(f"Expected a running cluster, found no state in {state.run_dir()}.")
    return written
