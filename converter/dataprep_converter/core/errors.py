"""The converter's errors. Each knows its exit code and the reason that the operator shows.

ConvertError
├── BadSpec           the spec asks for something impossible with this input        exit 2
├── BadData           more bad records than the spec allows                         exit 3
├── StoreError        a store refused for a reason that is none of these               exit 5
│   ├── Unreachable   a store can't be reached or failed on its own side            exit 4
│   ├── NotFound                                                                    exit 5
│   ├── NotPermitted                                                                exit 5
│   ├── BadCredentials                                                              exit 5
│   ├── StoreFull     no space or quota left                                        exit 5
│   └── AlreadyExists an exclusive create met an existing object                    exit 5
├── NoInput           the source holds no records                                   exit 5
├── InputChanged      an input is not the one that was planned                      exit 5
├── OutputExists      the output holds another run's data                           exit 5
├── OutputLost        another run took over the output                              exit 5
├── ScriptFailed      the program of `spec.script` ended with an error               exit 5
├── NotWhole          files and reports don't agree                                 exit 5
│   ├── Missing       a planned file or its report is not there                     exit 5
│   └── BrokenRecord  a record's CRC or length is wrong                             exit 5
├── NewerFormat       a stored file is of a newer format than this release knows        exit 5
└── StoppedError      another task failed, this one ended too (`steps/pool.py`)     exit 70
"""

from typing import ClassVar

from dataprep_api.exits import Exit
from dataprep_api.reasons import Reason


class ConvertError(Exception):
    """Base. `uri` is the input or file at fault, when there is one."""

    exit: ClassVar[Exit] = Exit.INTERNAL
    reason: ClassVar[Reason] = Reason.INTERNAL_ERROR

    def __init__(self, message: str, *, uri: str | None = None) -> None:
        super().__init__(message)
        self.uri = uri


class BadSpec(ConvertError):
    """The spec is valid by itself and impossible with this input."""

    exit = Exit.BAD_SPEC
    reason = Reason.INVALID_SPEC


class BadData(ConvertError):
    """More bad records than the spec allows."""

    exit = Exit.BAD_DATA
    reason = Reason.BAD_RECORDS


class StoreError(ConvertError):
    """A store refused, for none of the reasons below."""

    exit = Exit.NOT_FOUND
    reason = Reason.STORE_REFUSED


class Unreachable(StoreError):
    """Host not reachable, timed out, or answered with a fault of its own. The message names the host."""

    exit = Exit.UNREACHABLE
    reason = Reason.STORE_UNREACHABLE


class NotFound(StoreError):
    """The file or folder doesn't exist."""

    exit = Exit.NOT_FOUND
    reason = Reason.INPUT_NOT_FOUND


class NotPermitted(StoreError):
    """A right is missing; the message names it, the user and the path."""

    exit = Exit.NOT_FOUND
    reason = Reason.NOT_PERMITTED


class BadCredentials(StoreError):
    """The credentials themselves are refused."""

    exit = Exit.NOT_FOUND
    reason = Reason.BAD_CREDENTIALS


class StoreFull(StoreError):
    """No space or quota left."""

    exit = Exit.NOT_FOUND
    reason = Reason.STORE_FULL


class AlreadyExists(StoreError):
    """An exclusive create met an existing object."""

    exit = Exit.NOT_FOUND
    reason = Reason.OUTPUT_EXISTS


class NoInput(ConvertError):
    """The source holds no records."""

    exit = Exit.NOT_FOUND
    reason = Reason.NO_INPUT


class InputChanged(ConvertError):
    """An input is not the one that was planned."""

    exit = Exit.NOT_FOUND
    reason = Reason.INPUT_CHANGED


class OutputExists(ConvertError):
    """The output holds another run's data and may not be replaced."""

    exit = Exit.NOT_FOUND
    reason = Reason.OUTPUT_EXISTS


class OutputLost(ConvertError):
    """Another run took over the output."""

    exit = Exit.NOT_FOUND
    reason = Reason.OUTPUT_LOST


class ScriptFailed(ConvertError):
    """The user's own program ended with an error; its output comes before this one."""

    exit = Exit.NOT_FOUND
    reason = Reason.SCRIPT_FAILED


class NotWhole(ConvertError):
    """Files, reports and manifest don't agree; the message names file and offset."""

    exit = Exit.NOT_FOUND
    reason = Reason.VERIFICATION_FAILED


class Missing(NotWhole):
    """A planned file or its report is not there."""

    reason = Reason.OUTPUT_MISSING


class NewerFormat(ConvertError):
    """A stored file is of a newer format than this release knows. It isn't damaged, and this release must not touch it."""

    exit = Exit.NOT_FOUND
    reason = Reason.NEWER_FORMAT


class BadSample(Exception):
    """One sample can't be read or doesn't fit. Never leaves the engine: it is counted, or becomes BadData."""


class BrokenRecord(NotWhole):
    """The first fault of a file. Offsets are those of the uncompressed records."""

    def __init__(self, fault: str, *, offset: int) -> None:
        super().__init__(f"{fault} at offset {offset}")
        self.fault = fault
        self.offset = offset
