"""Runs the command `dataprep`, also as `python -m dataprep_converter`.

This module is apart from the commands because it must load at once: Ctrl-C while modules load must not print a traceback. So even modules of
the standard library are imported where the interrupt is caught.
"""

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn


def main() -> "NoReturn":
    """Runs the command of the arguments, and exits with its code."""
    try:
        from dataprep_converter.cli.commands import main as run_command

        run_command()
    except KeyboardInterrupt:
        import signal

        signal.signal(signal.SIGINT, signal.SIG_IGN)
        sys.stderr.write("dataprep: interrupted\n")
    finally:
        import signal

        # From now on, the interpreter only ends. Another Ctrl-C must end it without a traceback.
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    sys.exit(130)


if __name__ == "__main__":
    main()
