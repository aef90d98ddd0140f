"""The command line: `dataprep run|plan|validate|infer|verify|repair|convert|copy|inspect|head|ls|explain|schema|completion|…`.

Heavy modules are imported by the command that needs them, so that `dataprep --help` is quick.
"""

import argparse
import errno
import gc
import io
import logging
import os
import select
import signal
import sys
import traceback
from collections.abc import Mapping, Sequence
from types import FrameType
from typing import Final, NoReturn

from dataprep_api import tracing
from dataprep_api.errors import SpecError
from dataprep_api.exits import Exit
from dataprep_api.log_lines import JsonLines, PlainLines
from dataprep_api.redaction import for_display, one_line
from dataprep_converter import __version__
from dataprep_converter.cli import (
    check_commands,
    convert_command,
    copy_command,
    inspect_commands,
    pod_messages,
    spark_plan,
    step_commands,
)
from dataprep_converter.cli.cluster import commands as cluster_commands
from dataprep_converter.cli.help import commands as help_commands
from dataprep_converter.cli.interrupts import Interrupts
from dataprep_converter.cli.parser import Parser, parse
from dataprep_converter.core.redaction import guard, raw
from dataprep_converter.runtime import without_pandas

_OBJECTS_BETWEEN_COLLECTIONS: Final = 10_000
_OBJECTS_UNTIL_FIRST_READ: Final = 200_000
"""Larger than the number of objects that a worker creates before it reads its first input."""


class TerminatedError(BaseException):
    """Raised on SIGTERM, so that uploads in flight are aborted before the process exits. It is a BaseException, so that no `except
    Exception` catches it.
    """


def main(argv: Sequence[str] | None = None) -> NoReturn:
    """Runs a command and exits with its code (see `dataprep_api.exits`)."""
    # Redact the output even while parsing, because the parser's errors repeat invalid arguments.
    guard()
    parser, commands = parsers()
    execute(parse(parser, commands, sys.argv[1:] if argv is None else argv))


def execute(arguments: argparse.Namespace) -> NoReturn:
    """Runs `arguments.command(arguments)` and exits with its code.

    In a pod, a child process does the work, so that the parent can kill it if a store's client hangs.
    """
    lines = logging.StreamHandler(sys.stderr)
    if os.environ.get("DATAPREP_LOG_FORMAT") == "json":
        run = getattr(arguments, "run", None)
        about = {"job": os.environ.get("DATAPREP_JOB_NAME"), "runId": run if isinstance(run, str) else None}
        lines.setFormatter(JsonLines(lambda: about))
    else:
        lines.setFormatter(PlainLines("%(asctime)s %(levelname)s %(name)s %(message)s"))
    logging.basicConfig(
        level=logging.DEBUG if arguments.debug else logging.INFO if pod_messages.in_pod() else logging.WARNING, handlers=[lines]
    )
    guard()
    output = raw(sys.stdout)
    if isinstance(output, io.TextIOWrapper):
        # The terminal might use an encoding other than UTF-8. Characters that this encoding lacks are escaped, as on standard error.
        output.reconfigure(errors="backslashreplace")
    if pod_messages.in_pod():
        from dataprep_converter.runtime.watchdog import supervise

        sys.exit(pod_messages.exit_code(supervise(lambda: _run_command(arguments))))
    sys.exit(_run_command(arguments))


def _run_command(arguments: argparse.Namespace) -> int:
    """Runs the command and returns its exit code. Every error is printed as one line."""
    signal.signal(signal.SIGTERM, _on_sigterm)
    interrupts = Interrupts()
    with interrupts.noted():
        return _run_interruptible(arguments, interrupts)


def _run_interruptible(arguments: argparse.Namespace, interrupts: Interrupts) -> int:
    tracing.set_up("dataprep")
    try:
        if not getattr(arguments, "is_light", False):
            # By default OpenBLAS, numpy's linear algebra library, starts a thread per core on import. Its sums depend on the number of
            # threads, so use a single thread.
            os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
            # The imports that follow create more than a hundred thousand long-lived objects. By default, Python's garbage collector would
            # run after every 700 new objects. A command with `is_tuned` lowers the threshold again before it reads its input
            # (`allocator.tune_allocator`).
            gc.set_threshold(_OBJECTS_UNTIL_FIRST_READ if getattr(arguments, "is_tuned", False) else _OBJECTS_BETWEEN_COLLECTIONS)
            without_pandas.hide()
        code = int(arguments.command(arguments))
        sys.stdout.flush()
    except BaseException as exc:  # the outermost handler of the program
        if interrupts.received and not isinstance(exc, SystemExit | TerminatedError):
            # If Ctrl-C interrupts a library call, the library may raise another error. Don't report it as the command's error.
            exc = exc if isinstance(exc, KeyboardInterrupt) else KeyboardInterrupt(str(exc))
        if isinstance(exc, KeyboardInterrupt):
            # Another Ctrl-C must not interrupt the error message.
            signal.signal(signal.SIGINT, signal.SIG_IGN)
        if isinstance(exc, BrokenPipeError) and _reader_is_gone():
            return 128 + signal.SIGPIPE
        return int(_report_failure(exc, arguments))
    finally:
        tracing.shut_down()
    return code


def _on_sigterm(_signal: int, _frame: FrameType | None) -> NoReturn:
    # A signal to the process group arrives twice: directly, and from the parent. The second signal must not interrupt the clean-up.
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    raise TerminatedError


def _reader_is_gone() -> bool:
    """Whether the broken pipe is our standard output (as in `dataprep ls … | head`) rather than the connection to a store."""
    try:
        descriptor = sys.stdout.fileno()
    except (OSError, ValueError):
        return False
    output = select.poll()
    output.register(descriptor, 0)
    is_gone = any(events & select.POLLERR for _, events in output.poll(0))
    if is_gone:
        # The interpreter flushes its buffers at exit. Redirecting the output to /dev/null prevents this flush from failing because of the
        # closed pipe.
        os.dup2(os.open(os.devnull, os.O_WRONLY), descriptor)
    return is_gone


def _report_failure(exc: BaseException, arguments: argparse.Namespace) -> Exit:
    """Prints one clear line about the error and, in a pod, writes the termination message."""
    from dataprep_api.reasons import Reason
    from dataprep_converter.core.errors import ConvertError, StoreFull

    if isinstance(exc, SystemExit):
        raise exc
    if isinstance(exc, KeyboardInterrupt):
        _say("interrupted; finished shards are kept, and the same command continues from there")
        return Exit.INTERRUPTED
    if isinstance(exc, TerminatedError):
        _say("terminated; finished shards are kept")
        return Exit.TERMINATED
    if arguments.debug:
        _print_traceback(exc)
    if isinstance(exc, SpecError):
        for fault in exc.faults:
            _say(f"error: {fault.place}: {fault}" if fault.place else f"error: {fault}")
        pod_messages.leave_failure(Exit.BAD_SPEC, Reason.INVALID_SPEC, str(exc), arguments)
        return Exit.BAD_SPEC
    if isinstance(exc, OSError) and exc.errno in (errno.ENOSPC, errno.EDQUOT):
        import tempfile

        # Stores raise their own error for a full disk, so an OSError for a full disk comes from a local file.
        exc = StoreFull(f"No space left for {exc.filename or f'temporary files in {tempfile.gettempdir()}'}: {exc.strerror}.")
    if isinstance(exc, ConvertError):
        place = _place_of(exc, arguments)
        _say(f"error: {place}: {exc}" if place else f"error: {exc}")
        pod_messages.leave_failure(exc.exit, exc.reason, str(exc), arguments, uri=exc.uri)
        return exc.exit
    if isinstance(exc, ModuleNotFoundError) and exc.name and not exc.name.startswith("dataprep_"):
        message = f"{sys.executable} lacks the package {exc.name}: pip install dataprep-operator in its environment"
        _say(f"error: {message}")
        pod_messages.leave_failure(Exit.INTERNAL, Reason.INTERNAL_ERROR, message, arguments)
        return Exit.INTERNAL
    message = f"{type(exc).__name__}: {exc}"
    _say(f"error: a bug in dataprep: {message} (--debug shows where)")
    if not arguments.debug and pod_messages.in_pod():
        _print_traceback(exc)
    pod_messages.leave_failure(Exit.INTERNAL, Reason.INTERNAL_ERROR, message, arguments)
    return Exit.INTERNAL


def _place_of(exc: BaseException, arguments: argparse.Namespace) -> str:
    """Returns the line of the job's file that the error is about, or an empty string if the error isn't about the job.

    In a pod, the result is always empty, because nobody can open the file there.
    """
    from dataprep_converter.core.errors import BadSpec

    file = getattr(arguments, "job", None) or getattr(arguments, "job_option", None)
    if not isinstance(exc, BadSpec) or not file or file == "-" or pod_messages.in_pod():
        return ""
    from dataprep_converter.inputs import error_places

    return error_places.place_of(str(exc), file, getattr(arguments, "set", ()))


def _say(text: str) -> None:
    """Writes the text to standard error as one line."""
    sys.stderr.write(f"dataprep: {one_line(' '.join(text.split(chr(10))))}\n")


def _print_traceback(exc: BaseException) -> None:
    sys.stderr.write(for_display("".join(traceback.format_exception(exc))))


def parsers() -> tuple[Parser, Mapping[str, argparse.ArgumentParser]]:
    """Returns the parser of the command line, and the parser of each command."""
    parser = Parser(
        prog="dataprep", description="Turns raw data into training-ready shards, on this machine or as a step of a DataPrepJob."
    )
    parser.add_argument("--debug", action="store_true", help="log in detail and show tracebacks")
    parser.add_argument("--version", action="version", version=f"%(prog)s {__version__}")
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND", parser_class=Parser)
    for each in (
        step_commands,
        spark_plan,
        check_commands,
        convert_command,
        copy_command,
        inspect_commands,
        help_commands,
        cluster_commands,
    ):
        each.add(commands)
    for choice in commands._choices_actions:  # noqa: SLF001 - the help texts, which the completion shows, are stored nowhere else
        commands.choices[choice.dest].description = f"{choice.help}."
    for command in commands.choices.values():
        # The flag is accepted before and after the command. Without SUPPRESS, a flag before the command would be reset by the default of
        # the flag after the command.
        command.add_argument("--debug", action="store_true", default=argparse.SUPPRESS, help=argparse.SUPPRESS)
    return parser, commands.choices
