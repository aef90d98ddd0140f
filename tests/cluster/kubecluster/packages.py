"""The Debian packages that a node needs."""

import os
import shutil
from collections.abc import Mapping

from kubecluster.commands import run
from kubecluster.progress import report

# Package to the file that proves it is there, so that nothing is asked of apt when nothing is missing.
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


def missing() -> list[str]:
    """Return the packages whose program is not on this machine."""
    return [package for package, program in PACKAGES.items() if shutil.which(program) is None]


def installable() -> bool:
    """Say whether this machine could install them."""
    return shutil.which("apt-get") is not None and os.geteuid() == 0


def install() -> None:
    """Install what is missing, and nothing else."""
    names = missing()
    if not names:
        return
    report(f"installing {' '.join(names)}")
    environment = {"DEBIAN_FRONTEND": "noninteractive"}
    run(["apt-get", "update", "-qq"], environment=environment, timeout_seconds=300)
    run(["apt-get", "install", "-y", "-qq", "--no-install-recommends", *names], environment=environment, timeout_seconds=900)
