"""The converter's errors. Each error has an exit code, and a reason that the operator shows.

ConvertError
├── BadSpec           the spec asks for something impossible with this input        exit 2
│   └── RoundedDefault  a decimal column's default would lose digits                exit 2
├── BadData           more bad records than the spec allows                         exit 3
├── StoreError        a store refused for a reason not listed below                 exit 5
│   ├── Unreachable   a store can't be reached, or has an internal fault            exit 4
│   ├── NotFound                                                                    exit 5
│   ├── NotPermitted                                                                exit 5
│   ├── BadCredentials                                                              exit 5
│   ├── StoreFull     no space or quota left                                        exit 5
│   └── AlreadyExists an exclusive create failed because the object exists          exit 5
├── NoInput           the source contains no records                                exit 5
├── InputChanged      an input has changed since it was planned                     exit 5
├── OutputExists      the output contains another run's data                        exit 5
├── OutputLost        another run took over the output                              exit 5
├── ScriptFailed      the program of `spec.script` ended with an error              exit 5
├── NotWhole          files and reports don't agree                                 exit 5
│   ├── Missing       a planned file or its report doesn't exist                    exit 5
│   └── BrokenRecord  a record's CRC or length is wrong                             exit 5
├── NewerFormat       a stored file has a newer format than this release supports   exit 5
├── StoppedError      this task ended because another failed (`steps/processes.py`) exit 70
└── TooSlowError      the workers do the rest of a small job (`steps/one_pod.py`)   exit 70
"""

from typing import ClassVar

from dataprep_api.errors import Error
from dataprep_api.exits import Exit
from dataprep_api.reasons import Reason


class ConvertError(Error):
    """The base class of all errors. `uri` is the input or file that caused the error, if there is one."""

    exit: ClassVar[Exit] = Exit.INTERNAL
    reason: ClassVar[Reason] = Reason.INTERNAL_ERROR

    def __init__(self, message: str, *, uri: str | None = None) -> None:
        super().__init__(message)
        self.uri = uri


class BadSpec(ConvertError):
    """The spec is valid on its own, but can't be carried out with this input."""

    exit = Exit.BAD_SPEC
    reason = Reason.INVALID_SPEC


class RoundedDefault(BadSpec):
    """A decimal column's default would lose digits. Earlier releases rounded such defaults."""


class BadData(ConvertError):
    """There are more bad records than the spec allows, or there is a bad record although the spec allows none."""

    exit = Exit.BAD_DATA
    reason = Reason.BAD_RECORDS


class StoreError(ConvertError):
    """A store can't be reached or has refused a request. Some of the reasons have their own subclasses."""

    exit = Exit.NOT_FOUND
    reason = Reason.STORE_REFUSED


class Unreachable(StoreError):
    """A host can't be reached, timed out, or reported an internal fault. The message names the host."""

    exit = Exit.UNREACHABLE
    reason = Reason.STORE_UNREACHABLE


class NotFound(StoreError):
    """The file or folder doesn't exist."""

    exit = Exit.NOT_FOUND
    reason = Reason.INPUT_NOT_FOUND


class NotPermitted(StoreError):
    """A permission is missing. The message names the permission, the user and the path."""

    exit = Exit.NOT_FOUND
    reason = Reason.NOT_PERMITTED


class BadCredentials(StoreError):
    """The store rejects the credentials themselves."""

    exit = Exit.NOT_FOUND
    reason = Reason.BAD_CREDENTIALS


class StoreFull(StoreError):
    """The store has no space or quota left."""

    exit = Exit.NOT_FOUND
    reason = Reason.STORE_FULL


class AlreadyExists(StoreError):
    """An exclusive create failed because the object exists."""

    exit = Exit.NOT_FOUND
    reason = Reason.OUTPUT_EXISTS


class NoInput(ConvertError):
    """The source contains no records."""

    exit = Exit.NOT_FOUND
    reason = Reason.NO_INPUT


class InputChanged(ConvertError):
    """An input has changed since it was planned."""

    exit = Exit.NOT_FOUND
    reason = Reason.INPUT_CHANGED


class OutputExists(ConvertError):
    """The output contains another run's data, which must not be replaced."""

    exit = Exit.NOT_FOUND
    reason = Reason.OUTPUT_EXISTS


class OutputLost(ConvertError):
    """Another run has taken over the output. This run has published nothing since then."""

    exit = Exit.NOT_FOUND
    reason = Reason.OUTPUT_LOST


class ScriptFailed(ConvertError):
    """The user's own program ended with an error. The program's output precedes this error in the log."""

    exit = Exit.NOT_FOUND
    reason = Reason.SCRIPT_FAILED


class NotWhole(ConvertError):
    """Files, reports and manifest don't agree. The message names the file and the offset."""

    exit = Exit.NOT_FOUND
    reason = Reason.VERIFICATION_FAILED


class Missing(NotWhole):
    """A planned file or its report doesn't exist."""

    reason = Reason.OUTPUT_MISSING


class NewerFormat(ConvertError):
    """A stored file has a newer format than this release supports. The file isn't damaged, and this release must not change it."""

    exit = Exit.NOT_FOUND
    reason = Reason.NEWER_FORMAT


class BadSample(Exception):
    """A sample can't be read, or doesn't fit the features. The converter always handles this error: it counts the sample as bad or raises
    BadData."""


class BrokenRecord(NotWhole):
    """The first fault in a file. The fault's offset is counted in bytes of the uncompressed records."""

    def __init__(self, fault: str, *, offset: int) -> None:
        super().__init__(f"{fault} at offset {offset}")
        self.fault = fault
        self.offset = offset
