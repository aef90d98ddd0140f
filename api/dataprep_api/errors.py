"""The exceptions of this package, raised for invalid specs, messages, files and models.

ApiError
├── SpecError        the spec is not valid; each fault names its field path
├── MessageError     a pod's message doesn't have the expected form
├── FormatError      a stored file has a newer format version than this release supports
└── CrdError         the models can't be written as a structural CRD schema
"""

from collections.abc import Sequence
from dataclasses import dataclass, field


class Error(Exception):
    """Base class of all exceptions that users can expect from this package, the converter and the Python API."""


class ApiError(Error):
    """Base class of this package's exceptions."""


@dataclass(frozen=True)
class Fault:
    """One error in a spec, with the path of the field and the expected value."""

    path: str
    message: str

    unknown: bool = False
    """Whether the model has no field with this name. The name may be a typo, or the field may come from a later version."""
    place: str = field(default="", compare=False)
    """Where the user wrote the faulty field: `FILE:LINE:COLUMN`, or `--set FIELD`. Empty if unknown. The fault's text leaves out the place, because the files in a pod are different."""

    def __str__(self) -> str:
        return f"{self.path}: {self.message}" if self.path else self.message


class SpecError(ApiError):
    """The spec can't be accepted. `faults` contains every fault found, not only the first."""

    def __init__(self, faults: Sequence[Fault]) -> None:
        self.faults = tuple(faults)
        super().__init__("; ".join(str(fault) for fault in self.faults))


class MessageError(ApiError):
    """A termination message or progress report doesn't have the expected form."""


class FormatError(ApiError):
    """A stored file has a newer format version than this release supports. The message names the kind of file and both versions."""


class CrdError(ApiError):
    """A model uses something that a Kubernetes structural schema can't express."""
