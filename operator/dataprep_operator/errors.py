"""The operator's errors. What the user must fix ends in the job's status; anything else is retried.

OperatorError
├── ClusterError         a request to the API server failed
│   ├── NotFound         the object does not exist
│   ├── AlreadyExists    an object with that name exists
│   ├── Conflict         the object has changed since it was read
│   ├── Refused          invalid or not permitted: the same request fails again
│   └── Unavailable      unreachable, overloaded, or a server error
├── SpecUnreadable       the ConfigMap with a job's spec is unreadable
├── NotServed            a CRD is not installed
├── LeaseLost            another replica leads, or may lead
├── Overlap              another release works in the same namespaces
└── ReportRefused        a progress report was refused
"""


class OperatorError(Exception):
    """Base of this package's errors."""


class ClusterError(OperatorError):
    """A request to the API server failed."""


class NotFound(ClusterError):
    """The object does not exist."""


class AlreadyExists(ClusterError):
    """An object with that name exists."""


class Conflict(ClusterError):
    """The object has changed since it was read."""


class Refused(ClusterError):
    """The API server refuses the request, and would refuse it again."""


class Unavailable(ClusterError):
    """The API server can't be reached, or can't answer now."""


class SpecUnreadable(OperatorError):
    """The spec's ConfigMap is unreadable, or missing while the spec can't be had from elsewhere."""


class NotServed(OperatorError):
    """The CRDs are not installed."""


class LeaseLost(OperatorError):
    """This replica can't be sure that it leads."""


class Overlap(OperatorError):
    """Another release works in the same namespaces."""


class ReportRefused(OperatorError):
    """A progress report was refused; carries the HTTP status."""

    def __init__(self, status: int, message: str) -> None:
        self.status = status
        super().__init__(message)
