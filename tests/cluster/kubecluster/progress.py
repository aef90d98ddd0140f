"""Terminal output: progress with the seconds since the process started, and results.

Progress goes to standard error, so that the output of commands such as `kubeconfig` and `status` can be parsed.
"""

import sys
import time

_started = time.monotonic()


def report(line: str) -> None:
    """Write one line of progress."""
    sys.stderr.write(f"[{time.monotonic() - _started:5.1f} s] {line}\n")
    sys.stderr.flush()


def show(text: str) -> None:
    """Write a result."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()
