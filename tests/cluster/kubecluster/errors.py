"""What can go wrong with the test cluster.

ClusterError
├── ClusterUnavailable   no cluster can be had on this machine; names what is missing
├── BuildFailed          a program or an image did not build
├── StartFailed          a part of the cluster did not come up; carries the end of its log
└── NotSupported         this kind of cluster cannot do what was asked
"""


class ClusterError(Exception):
    """Anything that this package raises on purpose."""


class ClusterUnavailable(ClusterError):
    """No cluster can be had here: the message lists everything that is missing."""


class BuildFailed(ClusterError):
    """A Go program, the base image or the project's image did not build."""


class StartFailed(ClusterError):
    """A part of the cluster did not come up, or a command against it failed."""


class NotSupported(ClusterError):
    """The cluster at hand cannot do this, for example add a node to somebody's own cluster."""
