"""Termination messages of pods: the result or failure of a command, to be read by the operator."""

import argparse
import logging
import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from dataprep_api.exits import Exit
from dataprep_api.redaction import for_display

if TYPE_CHECKING:
    from dataprep_api.dataset.messages import CommitResult, PlanResult, RemoveResult, ScanRequest, WorkResult
    from dataprep_api.reasons import Reason

logger = logging.getLogger(__name__)

_CRASHES: Final = (signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS, signal.SIGILL, signal.SIGFPE)
_KILLED: Final = (int(Exit.UNREACHABLE), *(128 + number for number in (signal.SIGKILL, *_CRASHES)))
"""The exit codes of a process that the watchdog or the kernel has killed, or whose native code has crashed."""


def in_pod() -> bool:
    """Whether this process runs in a pod that the operator started."""
    return "DATAPREP_MOUNTS" in os.environ


def leave(message: "PlanResult | ScanRequest | CommitResult | WorkResult | RemoveResult") -> None:
    """Prints the result, and writes it as the pod's termination message."""
    from dataprep_api.dataset import messages

    if isinstance(message, messages.PlanResult | messages.CommitResult):
        message = _for_display(message)
    text = messages.dump(message)
    _write_termination(text)
    sys.stdout.write(text + "\n")


def leave_in_advance(plan: "PlanResult") -> None:
    """Writes the plan as the pod's termination message, in case this process is killed before it has finished the other steps."""
    from dataprep_api.dataset import messages

    _write_termination(messages.dump(_for_display(plan)))


def exit_code(code: int) -> int:
    """Returns the pod's exit code, given the exit code of its process.

    If the process was killed after it had written its plan as the termination message, the plan step is done, so the code is 0.
    """
    if code not in _KILLED or not _has_left_a_plan():
        return code
    sys.stderr.write("dataprep: the process was killed after it had stored the plan, so the convert and commit steps do the rest\n")
    return int(Exit.DONE)


def _has_left_a_plan() -> bool:
    from dataprep_api.dataset import messages
    from dataprep_api.errors import MessageError

    try:
        return isinstance(messages.parse(_termination_log().read_text(encoding="utf-8")), messages.PlanResult)
    except (OSError, ValueError, MessageError):
        return False


def leave_failure(code: Exit, reason: "Reason", message: str, arguments: argparse.Namespace, *, uri: str | None = None) -> None:
    """Writes an error as the pod's termination message."""
    from dataprep_api.dataset import messages

    if not in_pod():
        return
    failure = messages.FailureResult(
        reason=reason,
        message=for_display(message)[:2048],
        exit_code=int(code),
        index=getattr(arguments, "task", None),
        input=for_display(uri)[:2048] if uri else None,
    )
    try:
        _write_termination(messages.dump(failure))
    except OSError as exc:
        logger.warning("no termination message: %s", exc)  # still report the command's own error


def _write_termination(text: str) -> None:
    if in_pod():
        _termination_log().write_text(text, encoding="utf-8")


def _termination_log() -> Path:
    return Path(os.environ.get("DATAPREP_TERMINATION_LOG", "/dev/termination-log"))


def _for_display(message: "PlanResult | CommitResult") -> "PlanResult | CommitResult":
    return message.model_copy(update={"warnings": [for_display(warning)[:512] for warning in message.warnings]})
