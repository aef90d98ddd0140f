"""The errors of the API: what a user wrote that cannot be accepted.

ApiError
├── SpecError        the spec is not valid; each fault names its field path
├── MessageError     a message from a pod is not one of ours
├── FormatError      a stored file is of a newer format than this release knows
└── CrdError         the models can't be written as a structural CRD schema
"""

from collections.abc import Sequence
from dataclasses import dataclass


class ApiError(Exception):
    """Base of this package's errors."""


@dataclass(frozen=True)
class Fault:
    """One thing wrong in a spec: where, and what was expected."""

    path: str
    message: str

    unknown: bool = False
    """Whether nobody knows a field of this name here: a slip of the pen, or a later version's field."""

    def __str__(self) -> str:
        return f"{self.path}: {self.message}" if self.path else self.message


class SpecError(ApiError):
    """The spec can't be accepted. `faults` holds every fault found, not only the first."""

    def __init__(self, faults: Sequence[Fault]) -> None:
        self.faults = tuple(faults)
        super().__init__("; ".join(str(fault) for fault in self.faults))


class MessageError(ApiError):
    """A termination message or progress report is not of the expected form."""


class FormatError(ApiError):
    """A stored file is of a newer format than this release knows. Says what kind of file, its version and the newest one known."""


class CrdError(ApiError):
    """The models hold something that a Kubernetes structural schema can't say."""
