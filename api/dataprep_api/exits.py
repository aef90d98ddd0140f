"""The exit codes of `dataprep`. The operator's podFailurePolicy maps each exit code to an action."""

from enum import IntEnum


class Exit(IntEnum):
    """The reason why a `dataprep` process ended."""

    DONE = 0
    BAD_SPEC = 2
    """The spec, the plan or the arguments are wrong. A retry can't help."""
    BAD_DATA = 3
    """There were more bad records than the spec allows."""
    UNREACHABLE = 4
    """A store can't be reached, or it responded with a server error. A retry may help."""
    NOT_FOUND = 5
    """A file is missing, access to it is denied, or another run owns the output. The user must act."""
    INTERNAL = 70
    """An unexpected exception, which is a bug in dataprep. The failure may be retried."""
    INTERRUPTED = 130
    TERMINATED = 143
