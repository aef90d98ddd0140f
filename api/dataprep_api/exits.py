"""The exit codes of `dataprep`, a contract that the operator's podFailurePolicy maps to actions."""

from enum import IntEnum


class Exit(IntEnum):
    """Why a `dataprep` process ended."""

    DONE = 0
    BAD_SPEC = 2
    """The spec, the plan or the arguments are wrong: no retry can help."""
    BAD_DATA = 3
    """More bad records than the spec allows."""
    UNREACHABLE = 4
    """A store can't be reached or answered with an error of its own: worth a retry."""
    NOT_FOUND = 5
    """Missing, not permitted, or owned by another run: the user must act."""
    INTERNAL = 70
    """A defect of ours (an exception nobody foresaw): counted as a retryable failure."""
    INTERRUPTED = 130
    TERMINATED = 143
