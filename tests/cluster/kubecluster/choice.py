"""Chooses the cluster that the tests run against.

DATAPREP_TEST_KUBECONFIG is set → that cluster a Docker engine answers → kind root and Go are available → a cluster that this package
assembles on this machine otherwise → ClusterUnavailable, which names what is missing
"""

import os
from collections.abc import Mapping
from pathlib import Path

from kubecluster import kind, local
from kubecluster.cluster import Cluster
from kubecluster.errors import ClusterUnavailable
from kubecluster.state import run_dir

KUBECONFIG_VARIABLE = "DATAPREP_TEST_KUBECONFIG"
BRIDGE_IP_VARIABLE = "DATAPREP_TEST_BRIDGE_IP"


def up(preloaded: Mapping[str, Path] | None = None) -> Cluster:
    """Return a running cluster of the first available kind, starting it if necessary.

    `preloaded` maps the names of images to their archives. If this package assembles the cluster, the cluster starts with these images. On
    any other cluster, call `load_image` for each image. `load_image` does nothing if the image is already there.
    """
    if given := os.environ.get(KUBECONFIG_VARIABLE):
        return _given(Path(given))
    if kind.answers():
        return kind.up()
    if lacks := local.missing():
        raise ClusterUnavailable(
            f"No cluster for the tests: {KUBECONFIG_VARIABLE} is not set, no Docker engine with kind answers, and a cluster on this machine"
            f" needs {', '.join(lacks)}."
        )
    return local.up(preloaded or {})


def attach() -> Cluster | None:
    """Return the cluster that is already running; starts nothing."""
    if given := os.environ.get(KUBECONFIG_VARIABLE):
        return _given(Path(given))
    if (running := local.attach()) is not None:
        return running
    return kind.up() if kind.answers() and kind.exists() else None


def _given(kubeconfig: Path) -> Cluster:
    if not kubeconfig.is_file():
        raise ClusterUnavailable(f"{KUBECONFIG_VARIABLE} must name a kubeconfig file, got {kubeconfig}.")
    return Cluster(kubeconfig=kubeconfig, bridge_ip=os.environ.get(BRIDGE_IP_VARIABLE), logs=run_dir() / "given")
