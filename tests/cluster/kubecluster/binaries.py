"""Builds the cluster's programs from Go modules and caches them.

The modules `controlplane` and `nodes` only run these programs. Building takes minutes, and continues in the background while unit tests
run. Each program is built under its own lock, and then renamed into place. So a program can be used at any time, even while it is built in
the background.
"""

import fcntl
import functools
import hashlib
import json
import os
import re
import shutil
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from kubecluster.commands import run
from kubecluster.errors import BuildFailed, ClusterUnavailable
from kubecluster.progress import report

MODULES = Path(__file__).resolve().parent.parent / "go"

KUBERNETES_FLAGS = (
    "-X k8s.io/component-base/version.gitVersion=v{kubernetes}",
    "-X k8s.io/component-base/version.gitMajor={major}",
    "-X k8s.io/component-base/version.gitMinor={minor}",
)
# Helm renders charts for Kubernetes 1.20 unless the version is set at link time.
HELM_FLAGS = (
    "-X helm.sh/helm/v3/internal/version.version=v{helm}",
    "-X helm.sh/helm/v3/pkg/chartutil.k8sVersionMajor={major}",
    "-X helm.sh/helm/v3/pkg/chartutil.k8sVersionMinor={minor}",
    "-X helm.sh/helm/v3/pkg/lint/rules.k8sVersionMajor={major}",
    "-X helm.sh/helm/v3/pkg/lint/rules.k8sVersionMinor={minor}",
)
KUEUE_FLAGS = ("-X sigs.k8s.io/kueue/pkg/version.GitVersion=v{kueue}",)
_NICENESS = 5
"""The priority of the builds is lower than that of a developer's other programs. It is higher than that of the tests without a cluster
(`tests/run`), because all tests on the cluster wait for the builds."""
# The cache holds programs of all versions. These flags change the binary, so they are part of the cache's key.
BUILD_FLAGS = ("-trimpath", "-buildvcs=false")


@dataclass(frozen=True)
class Program:
    """One program: the folder of its Go module under `tests/cluster/go`, its package and its version flags."""

    module: str
    package: str
    version_flags: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()
    """The program's source files, if they are in the module's folder. All other programs are packages of their modules' dependencies."""


# Helm is built first, because the chart's tests wait for it while the other programs are built. The longest builds follow, because the
# cluster needs these programs first when it starts.
PROGRAMS: Mapping[str, Program] = {
    "helm": Program("helm", "helm.sh/helm/v3/cmd/helm", HELM_FLAGS),
    "kube-apiserver": Program("kubernetes", "k8s.io/kubernetes/cmd/kube-apiserver", KUBERNETES_FLAGS),
    "kube-controller-manager": Program("kubernetes", "k8s.io/kubernetes/cmd/kube-controller-manager", KUBERNETES_FLAGS),
    "kube-scheduler": Program("kubernetes", "k8s.io/kubernetes/cmd/kube-scheduler", KUBERNETES_FLAGS),
    "kubelet": Program("kubernetes", "k8s.io/kubernetes/cmd/kubelet", KUBERNETES_FLAGS),
    "kube-proxy": Program("kubernetes", "k8s.io/kubernetes/cmd/kube-proxy", KUBERNETES_FLAGS),
    "kubectl": Program("kubernetes", "k8s.io/kubernetes/cmd/kubectl", KUBERNETES_FLAGS),
    "etcd": Program("etcd", "go.etcd.io/etcd/server/v3"),
    "coredns": Program("coredns", "github.com/coredns/coredns"),
    "kwok": Program("kwok", "sigs.k8s.io/kwok/cmd/kwok"),
    "kueue": Program("kueue", "sigs.k8s.io/kueue/cmd/kueue", KUEUE_FLAGS),
    "flux": Program("flux", ".", sources=("main.go",)),
}


def cache_dir() -> Path:
    """Return the folder that caches programs and images between runs."""
    if given := os.environ.get("DATAPREP_TEST_CACHE"):
        return Path(given)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "dataprep-test"


def required_version(module: str, dependency: str) -> str:
    """Return the version, without its `v`, of a dependency in one of our Go modules."""
    go_mod = (MODULES / module / "go.mod").read_text()
    found = re.search(rf"^(?:require )?\s*{re.escape(dependency)} v(\S+)", go_mod, re.MULTILINE)
    if found is None:
        raise BuildFailed(f"{MODULES / module / 'go.mod'} must require {dependency}, but does not.")
    return found.group(1)


def path(name: str) -> Path:
    """Return the path of the program, which might not be built yet."""
    program = PROGRAMS[name]
    digest = hashlib.sha256()
    for text in (*BUILD_FLAGS, *_linker_flags(program), _go_version()):
        digest.update(text.encode() + b"\0")
    for file in ("go.mod", "go.sum", *program.sources):
        digest.update((MODULES / program.module / file).read_bytes())
    return cache_dir() / f"bin-{program.module}-{digest.hexdigest()[:16]}" / name


def source(module: str, dependency: str) -> Path:
    """Return the folder with a dependency's sources and manifests, in the version that our module requires.

    Downloads the dependency if necessary.
    """
    found = json.loads(
        run(["go", "mod", "download", "-C", MODULES / module, "-json", dependency], environment={"GOWORK": "off"}, timeout_seconds=300)
    )
    return Path(found["Dir"])


def missing(names: Sequence[str] = tuple(PROGRAMS)) -> list[str]:
    """Return the programs that are not built yet."""
    return [name for name in names if not path(name).exists()]


def build(names: Sequence[str] = tuple(PROGRAMS)) -> None:
    """Build every named program that is not in the cache."""
    for name in names:
        built(name)


def built(name: str) -> Path:
    """Return the path of a program. Builds it if necessary, or waits for another process that is building it."""
    target = path(name)
    if target.exists():
        return target
    with _locked(target.with_name(f".{name}.lock")):
        if not target.exists():
            _build(name, target)
    return target


def _build(name: str, target: Path) -> None:
    program = PROGRAMS[name]
    report(f"building {name}")
    started = time.monotonic()
    unfinished = target.with_name(f".{name}.{os.getpid()}")
    flags = [*BUILD_FLAGS, "-ldflags", " ".join(_linker_flags(program))]
    command = ["nice", "-n", str(_NICENESS), "go", "build", *flags, "-o", str(unfinished), program.package]
    done = subprocess.run(
        command,
        cwd=MODULES / program.module,
        env={**os.environ, "CGO_ENABLED": "0", "GOWORK": "off"},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        unfinished.unlink(missing_ok=True)
        raise BuildFailed(f"{name} did not build: {' '.join(command)}\n{done.stderr[-4000:]}")
    unfinished.rename(target)
    report(f"built {name} in {time.monotonic() - started:.0f} s")


def _linker_flags(program: Program) -> list[str]:
    kubernetes = required_version("kubernetes", "k8s.io/kubernetes")
    major, minor, _ = kubernetes.split(".", 2)
    versions = {"kubernetes": kubernetes, "major": major, "minor": minor}
    versions |= {"helm": required_version("helm", "helm.sh/helm/v3"), "kueue": required_version("kueue", "sigs.k8s.io/kueue")}
    return ["-s", "-w", *(flag.format(**versions) for flag in program.version_flags)]


@functools.cache
def _go_version() -> str:
    if shutil.which("go") is None:
        raise ClusterUnavailable("The programs of the test cluster are built with Go: expected `go` on PATH, found none.")
    # GOVERSION respects the toolchain line of the module; `go version` doesn't.
    return run(["go", "env", "-C", MODULES / "kubernetes", "GOVERSION"]).strip()


@contextmanager
def _locked(file: Path) -> Iterator[None]:
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
