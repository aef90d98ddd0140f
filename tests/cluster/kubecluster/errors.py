"""The errors of the test cluster.

ClusterError
├── ClusterUnavailable   no cluster can run on this machine; names what is missing
├── BuildFailed          a program or an image did not build
├── StartFailed          a component did not start; carries the end of its log
└── NotSupported         this kind of cluster does not support the operation
"""


class ClusterError(Exception):
    """Base class of all errors that this package raises."""


class ClusterUnavailable(ClusterError):
    """No cluster can run here. The message lists everything that is missing."""


class BuildFailed(ClusterError):
    """A Go program, the base image or the project's image did not build."""


class StartFailed(ClusterError):
    """A component of the cluster did not start, or a command against it failed."""


class NotSupported(ClusterError):
    """This kind of cluster does not support the operation, for example adding a node to a given cluster."""
