"""A real Kubernetes cluster for the tests.

    cluster = kubecluster.up()                       # starts one, or attaches to the running one
    cluster.load_image(archive, "dataprep:test")
    cluster.kubectl("get", "nodes")
    cluster.down()

`python -m kubecluster --help` does the same from a shell.
"""

from kubecluster.choice import attach, up
from kubecluster.cluster import Cluster
from kubecluster.errors import BuildFailed, ClusterError, ClusterUnavailable, NotSupported, StartFailed
from kubecluster.images import build_image, program_image
from kubecluster.local import ended_daemons

__all__ = [
    "BuildFailed",
    "Cluster",
    "ClusterError",
    "ClusterUnavailable",
    "NotSupported",
    "StartFailed",
    "attach",
    "build_image",
    "ended_daemons",
    "program_image",
    "up",
]
