"""Starts and stops the cluster with the operator and the stores (`make cluster-up`, `cluster-down`, `image`), and runs the cluster tests."""

import argparse
import subprocess
import sys
from pathlib import Path

import kubecluster
from kubecluster import packages
from workbench import testing
from workbench.installation import CONVERTER_IMAGE, OPERATOR_IMAGE, TAG, build, install_operator

STORES = Path("/var/tmp/dataprep-test-stores")  # noqa: S108  # one folder per machine, as for the cluster


def main() -> int:
    """Runs one command."""
    parser = argparse.ArgumentParser(prog="python -m workbench", description=__doc__)
    parser.add_argument("command", choices=["packages", "prepare", "images", "up", "down", "test"])
    options, arguments = parser.parse_known_args()
    if options.command == "test":
        return testing.run_on_cluster(arguments)
    if arguments:
        parser.error(f"unknown arguments: {' '.join(arguments)}")
    return {"packages": _packages, "prepare": _prepare, "images": _images, "up": _up, "down": _down}[options.command]()


def _packages() -> int:
    """Installs missing Debian packages that the cluster and the store servers need."""
    packages.install({**packages.PACKAGES, **packages.TEST_PACKAGES})
    return 0


def _prepare() -> int:
    """Gets the jars, the cluster's programs and both images. This slow part of the set-up needs access only to registries."""
    for module in ("storeservers", "kubecluster"):
        subprocess.run([sys.executable, "-m", module, "build"], check=True)
    return _images()


def _images() -> int:
    for image, archive in build().items():
        sys.stdout.write(f"{image}  docker-archive:{archive}\n")
    return 0


def _up() -> int:
    cluster = kubecluster.up(build())
    install_operator(cluster)
    host = cluster.bridge_ip or "127.0.0.1"
    subprocess.run([sys.executable, "-m", "storeservers", "up", "--host", host, "--dir", str(STORES)], check=True)
    sys.stdout.write(
        f"\nThe cluster is up, with {OPERATOR_IMAGE}:{TAG} in dataprep-system and {CONVERTER_IMAGE}:{TAG} for the pods.\n"
        f"  export KUBECONFIG={cluster.kubeconfig}\n"
        "  kubectl get dataprepjobs --all-namespaces\n"
        f"HDFS, S3 and the OSS fake listen on {host}; addresses and keys are in {STORES / 'servers.json'}.\n"
        "make cluster-down ends all of it.\n"
    )
    return 0


def _down() -> int:
    if (STORES / "servers.json").exists():
        subprocess.run([sys.executable, "-m", "storeservers", "down", "--dir", str(STORES)], check=True)
    running = kubecluster.attach()
    if running is not None:
        running.down()
    return 0


if __name__ == "__main__":
    sys.exit(main())
