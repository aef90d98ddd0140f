"""The operator's errors. Errors that the user must fix are reported in the job's status; all others are retried.

OperatorError
├── ClusterError         a request to the API server failed
│   ├── NotFound         the object does not exist
│   ├── AlreadyExists    an object with that name exists
│   ├── Conflict         the object has changed since it was read
│   ├── Refused          invalid or not permitted; the same request fails again
│   └── Unavailable      unreachable, overloaded, or a server error
├── SpecUnreadable       the ConfigMap with a job's spec is unreadable
├── NotServed            a CRD is not installed
├── LeaseLost            another replica is the leader, or may be
├── Overlap              another release manages the same namespaces
└── ReportRefused        a progress report was refused
"""


class OperatorError(Exception):
    """Base class of this package's errors."""


class ClusterError(OperatorError):
    """A request to the API server failed."""


class NotFound(ClusterError):
    """The object does not exist."""


class AlreadyExists(ClusterError):
    """An object with that name exists."""


class Conflict(ClusterError):
    """The object has changed since it was read."""


class Refused(ClusterError):
    """The API server refuses the request. A retry would be refused too."""


class Unavailable(ClusterError):
    """The API server can't be reached, or can't respond at the moment."""


class SpecUnreadable(OperatorError):
    """The ConfigMap with the job's spec is unreadable, or it is missing and the spec can't be found elsewhere."""


class NotServed(OperatorError):
    """The CRDs are not installed."""


class LeaseLost(OperatorError):
    """This replica can no longer be sure that it is the leader."""


class Overlap(OperatorError):
    """Another release manages the same namespaces."""


class ReportRefused(OperatorError):
    """A progress report or a request for metrics was refused. `status` is the HTTP status of the response."""

    def __init__(self, status: int, message: str) -> None:
        self.status = status
        super().__init__(message)
