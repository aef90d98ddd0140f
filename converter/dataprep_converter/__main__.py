"""Runs the command `dataprep`, also as `python -m dataprep_converter`.

This module is separate from the commands because it must load instantly: Ctrl-C while modules load must not print a traceback. So even
standard library modules are imported inside the block that catches the interrupt. An interrupted import can raise any error, so any error
after Ctrl-C is treated as the interrupt.
"""

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import FrameType
    from typing import NoReturn


def main() -> "NoReturn":
    """Runs the command given in the arguments, and exits with its code."""
    interrupts: list[int] = []

    def note(number: int, _frame: "FrameType | None") -> "NoReturn":
        interrupts.append(number)
        raise KeyboardInterrupt

    try:
        try:
            import signal

            if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
                signal.signal(signal.SIGINT, note)
                sys.unraisablehook = _end_if_interrupted
            from dataprep_converter.cli.commands import main as run_command

            run_command()
        finally:
            import signal

            # From here on, the interpreter only shuts down. Another Ctrl-C must end it without a traceback. An interrupt that arrives
            # before this line has run is caught below.
            signal.signal(signal.SIGINT, signal.SIG_DFL)
    except BaseException as exc:
        if isinstance(exc, SystemExit) or not (interrupts or isinstance(exc, KeyboardInterrupt)):
            raise
        import signal

        signal.signal(signal.SIGINT, signal.SIG_DFL)
        sys.stderr.write("dataprep: interrupted\n")
    sys.exit(130)


def _end_if_interrupted(lost: "sys.UnraisableHookArgs") -> None:
    """Ends the process if Python can't raise an interrupt, for example in a callback of the import system. No work has begun yet."""
    if not issubclass(lost.exc_type, KeyboardInterrupt):
        sys.__unraisablehook__(lost)
        return
    sys.stderr.write("dataprep: interrupted\n")
    sys.stderr.flush()
    os._exit(130)


if __name__ == "__main__":
    main()
