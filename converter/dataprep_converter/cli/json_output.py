"""The results of commands as JSON, for scripts (`--json`). The result is on standard output; progress and errors stay on standard error."""

import argparse
import json
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pydantic import BaseModel


def add_json(command: argparse.ArgumentParser, what: str) -> None:
    """Adds `--json` to a command. `what` names the result."""
    command.add_argument("--json", action="store_true", help=f"print {what} as JSON")


def document(result: "BaseModel") -> Any:  # Any: JSON
    """Returns a result's fields, keyed by their JSON names, without the fields that have no value."""
    return result.model_dump(mode="json", by_alias=True, exclude_none=True)


def write(value: Any) -> None:  # Any: JSON
    """Writes one JSON value to standard output."""
    sys.stdout.write(json.dumps(value, indent=2) + "\n")
