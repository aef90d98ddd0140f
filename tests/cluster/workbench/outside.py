"""Runs the operator as a local process with the installed operator's rights.

A local operator can be killed, paused, put behind a proxy or given a wrong clock. The module `installation` runs the operator as users do.
While a local operator runs, the installed operator must be scaled down (see `nobody_inside`).
"""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

import yaml

from workbench.installation import CONVERTER_IMAGE, ROOT, TAG, Installation

LEASE = "outside"
START_SECONDS = 60.0
_SOURCES = ("api", "operator")


class DidNotStart(AssertionError):
    """The process ended or was not ready in time. The message contains the end of its log."""


@contextmanager
def nobody_inside(installation: Installation) -> Iterator[None]:
    """Scales the installed operator down while the block runs, but leaves its rights in place."""
    send_away(installation)
    try:
        yield
    finally:
        bring_back(installation)


def send_away(installation: Installation) -> None:
    """Deletes the installed operator's pods, if there are any."""
    _scale(installation, replicas=0)
    installation.wait_gone({pod["metadata"]["name"] for pod in installation.pods()})


def bring_back(installation: Installation) -> None:
    """Starts the installed operator, if it isn't running, and waits until it is ready."""
    _scale(installation, replicas=2)
    installation.wait_ready()


def _scale(installation: Installation, *, replicas: int) -> None:
    installation.cluster.kubectl("--namespace", installation.namespace, "scale", "deployment", "--all", f"--replicas={replicas}")


@contextmanager
def credentials(installation: Installation) -> Iterator[Path]:
    """A kubeconfig with the operator's service account."""
    [account] = {
        item["metadata"]["name"]
        for item in json.loads(
            installation.cluster.kubectl(
                "--namespace",
                installation.namespace,
                "get",
                "serviceaccounts",
                "--output=json",
                "--selector=app.kubernetes.io/managed-by=Helm",
            )
        )["items"]
    }
    token = installation.cluster.kubectl("--namespace", installation.namespace, "create", "token", account, "--duration=2h").strip()
    document = yaml.safe_load(installation.cluster.kubeconfig.read_text())
    document["users"] = [{"name": user["name"], "user": {"token": token}} for user in document["users"]]
    with tempfile.TemporaryDirectory(prefix="dataprep-outside-") as folder:
        file = Path(folder) / "kubeconfig"
        file.write_text(yaml.safe_dump(document))
        file.chmod(0o600)
        yield file


@dataclass
class OutsideOperator:
    """A single operator process. Replicas share a Lease, given by `lease_namespace`, and differ in their `identity`."""

    kubeconfig: Path
    port: int
    host: str = "127.0.0.1"
    """The address to listen on. Pods reach the operator only on the cluster's bridge."""
    sources: Path = ROOT
    """The folder with the operator's source roots."""
    image: str = f"{CONVERTER_IMAGE}:{TAG}"
    """The converter's image."""
    server: str | None = None
    """The API server's URL, for example a proxy's, to use instead of the kubeconfig's."""
    lease_namespace: str | None = None
    lease_name: str = LEASE
    identity: str = "outside-1"
    namespaces: Sequence[str] = ()
    """The watched namespaces; all if empty."""
    environment: Mapping[str, str] = field(default_factory=dict)
    log: Path = Path(os.devnull)
    _process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start the process; `wait_ready` waits for it."""
        kubeconfig = self.kubeconfig
        if self.server is not None:
            document = yaml.safe_load(self.kubeconfig.read_text())
            document["clusters"] = [{"name": each["name"], "cluster": {"server": self.server}} for each in document["clusters"]]
            kubeconfig = self.kubeconfig.with_name(f"kubeconfig-{self.port}")
            kubeconfig.write_text(yaml.safe_dump(document))
        environment = {
            "PATH": os.environ.get("PATH", ""),
            "PYTHONPATH": os.pathsep.join(str(self.sources / source) for source in _SOURCES),
            "PYTHONSAFEPATH": "1",
            "KUBECONFIG": str(kubeconfig),
            "POD_NAME": self.identity,
            "DATAPREP_IMAGE": self.image,
            "DATAPREP_IMAGE_PULL_POLICY": "IfNotPresent",
            "DATAPREP_RESOURCES": json.dumps({"requests": {"cpu": "100m", "memory": "128Mi"}, "limits": {"memory": "1Gi"}}),
            "DATAPREP_LISTEN_HOST": self.host,
            "DATAPREP_LISTEN_PORT": str(self.port),
            "DATAPREP_LEASE_NAME": self.lease_name,
            "DATAPREP_PROGRESS_SECONDS": "1",
            "DATAPREP_NAMESPACES": ",".join(self.namespaces),
            **({"DATAPREP_LEASE_NAMESPACE": self.lease_namespace} if self.lease_namespace else {}),
            **self.environment,
        }
        with self.log.open("ab") as log:
            self._process = subprocess.Popen([sys.executable, "-m", "dataprep_operator"], env=environment, stdout=log, stderr=log)

    def wait_ready(self) -> None:
        """Wait until the operator has opened its watches, or is waiting for the Lease."""
        deadline = time.monotonic() + START_SECONDS
        while not self._ready():
            if self.ended is not None or time.monotonic() > deadline:
                raise DidNotStart(f"exit status {self.ended}; the end of its log:\n{self.words()[-3000:]}")
            time.sleep(0.1)

    def words(self) -> str:
        """The process's output."""
        return self.log.read_text(errors="replace") if self.log.is_file() else ""

    def leads(self) -> bool:
        """Whether the operator reports that it is the leader."""
        return "dataprep_leader 1.0" in self.metrics()

    def metrics(self) -> str:
        """The operator's metrics, or an empty string if the operator doesn't respond."""
        return self._answer("/metrics") or ""

    @property
    def ended(self) -> int | None:
        """The exit status, if the process has ended."""
        return self._process.poll() if self._process is not None else None

    def wait_ended(self, *, seconds: float) -> int:
        """Wait until the process ends, and return its exit status."""
        assert self._process is not None
        return self._process.wait(timeout=seconds)

    def resident_megabytes(self) -> float:
        """The process's resident memory."""
        assert self._process is not None
        pages = int(Path(f"/proc/{self._process.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE") / 1e6

    def kill(self) -> None:
        """Kill the process, as a power failure would."""
        self._signal(signal.SIGKILL)
        if self._process is not None:
            self._process.wait()

    def stop(self) -> None:
        """Stop the process as Kubernetes does, with SIGTERM and then SIGKILL."""
        self._signal(signal.SIGCONT)
        self._signal(signal.SIGTERM)
        if self._process is not None:
            try:
                self._process.wait(timeout=15)
            except subprocess.TimeoutExpired:
                self.kill()

    def pause(self) -> None:
        """Suspend the process, as if its machine were swapping or being migrated."""
        self._signal(signal.SIGSTOP)

    def wake(self) -> None:
        """Resume the process."""
        self._signal(signal.SIGCONT)

    def __enter__(self) -> Self:
        self.start()
        self.wait_ready()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _ready(self) -> bool:
        return self._answer("/readyz") is not None

    def _answer(self, path: str) -> str | None:
        try:
            with urllib.request.urlopen(f"http://{self.host}:{self.port}{path}", timeout=2) as answer:
                return str(answer.read().decode())
        except urllib.error.HTTPError as exc:
            exc.close()
            return None
        except OSError:
            return None

    def _signal(self, number: int) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(number)
