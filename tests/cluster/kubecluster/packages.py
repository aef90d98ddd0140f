"""The Debian packages that nodes and tests need."""

import os
import shutil
from collections.abc import Mapping
from pathlib import Path

from kubecluster.commands import run
from kubecluster.progress import report

# Maps each package to a file whose presence shows that the package is installed, so that apt runs only if something is missing.
PACKAGES: Mapping[str, str] = {
    "containerd": "containerd",
    "runc": "runc",
    "containernetworking-plugins": "/usr/lib/cni/bridge",
    "buildah": "buildah",
    "debootstrap": "debootstrap",
    "nftables": "nft",
    "iproute2": "ip",
    "openssl": "openssl",
    "busybox-static": "busybox",
}

# Needed by the store servers and the tests' data, not by nodes.
TEST_PACKAGES: Mapping[str, str] = {
    "openjdk-17-jdk-headless": "javac",
    "maven": "mvn",
    "prometheus": "promtool",
    "faketime": "faketime",
    "krb5-kdc": "/usr/sbin/krb5kdc",
    "krb5-admin-server": "/usr/sbin/kadmin.local",
    "zsh": "zsh",
    "fish": "fish",
    "dataset-fashion-mnist": "/usr/share/datasets/fashion-mnist/t10k-labels-idx1-ubyte.gz",
}


def missing(packages: Mapping[str, str] = PACKAGES) -> list[str]:
    """Return the packages that are not on this machine."""
    return [package for package, proof in packages.items() if not (Path(proof).exists() if proof.startswith("/") else shutil.which(proof))]


def installable() -> bool:
    """Say whether missing packages can be installed on this machine."""
    return shutil.which("apt-get") is not None and os.geteuid() == 0


def install(packages: Mapping[str, str] = PACKAGES) -> None:
    """Install only what is missing."""
    names = missing(packages)
    if not names:
        return
    report(f"installing {' '.join(names)}")
    environment = {"DEBIAN_FRONTEND": "noninteractive"}
    run(["apt-get", "update", "-qq"], environment=environment, timeout_seconds=300)
    run(["apt-get", "install", "-y", "-qq", "--no-install-recommends", *names], environment=environment, timeout_seconds=900)
