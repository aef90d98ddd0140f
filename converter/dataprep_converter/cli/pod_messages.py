"""Termination messages of pods: the result or failure of a command, to be read by the operator."""

import argparse
import logging
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from dataprep_api.exits import Exit
from dataprep_api.redaction import for_display

if TYPE_CHECKING:
    from dataprep_api.dataset.messages import CommitResult, PlanResult, RemoveResult, WorkResult
    from dataprep_api.reasons import Reason

logger = logging.getLogger(__name__)


def in_pod() -> bool:
    """Whether this process runs in a pod that the operator started."""
    return "DATAPREP_MOUNTS" in os.environ


def leave(message: "PlanResult | CommitResult | WorkResult | RemoveResult") -> None:
    """Prints the result and leaves it as the pod's termination message."""
    from dataprep_api.dataset import messages

    if isinstance(message, messages.PlanResult | messages.CommitResult):
        message = message.model_copy(update={"warnings": [for_display(warning)[:512] for warning in message.warnings]})
    text = messages.dump(message)
    _write_termination(text)
    sys.stdout.write(text + "\n")


def leave_failure(code: Exit, reason: "Reason", message: str, arguments: argparse.Namespace, *, uri: str | None = None) -> None:
    """Leaves an error as the pod's termination message."""
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
        logger.warning("no termination message: %s", exc)  # the error to report is still the command's


def _write_termination(text: str) -> None:
    if in_pod():
        Path(os.environ.get("DATAPREP_TERMINATION_LOG", "/dev/termination-log")).write_text(text, encoding="utf-8")
