"""The command line: `dataprep run|plan|validate|infer|verify|repair|convert|copy|inspect|ls|work|commit|remove|fetch-code|logs|retry`.

Heavy modules are imported by the command that needs them, so that `dataprep --help` is quick.
"""

import argparse
import errno
import io
import json
import logging
import os
import select
import signal
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, NoReturn

from dataprep_api import tracing
from dataprep_api.errors import Fault, SpecError
from dataprep_api.exits import Exit
from dataprep_api.log_lines import JsonLines, PlainLines
from dataprep_api.shown import one_line, shown
from dataprep_converter import __version__
from dataprep_converter.cli import checking_commands, converting_command, copying_command
from dataprep_converter.cli.arguments import access_of, access_to, add_workers, job_command, job_of, ready_workers, uri_command, with_code
from dataprep_converter.core.redaction import guard, raw
from dataprep_converter.runtime import without_pandas

if TYPE_CHECKING:
    from dataprep_api.dataset.messages import CommitResult, PlanResult, RemoveResult, WorkResult
    from dataprep_api.reasons import Reason
    from dataprep_api.resources.job import DataPrepJob
    from dataprep_converter.inputs.access import Access
    from dataprep_converter.sampling.plan import Plan
    from dataprep_converter.steps.kinds import Kind

logger = logging.getLogger(__name__)


class TerminatedError(BaseException):
    """SIGTERM: uploads in flight are aborted on the way out. A BaseException, so that no `except Exception` swallows it."""


def main(argv: Sequence[str] | None = None) -> NoReturn:
    """Runs a command and exits with its code (see `dataprep_api.exits`)."""
    # First of all: a wrong argument is quoted too.
    guard()
    execute(_parser().parse_args(argv))


def execute(arguments: argparse.Namespace) -> NoReturn:
    """Runs `arguments.command(arguments)` and exits with its code. In a pod the work is done in a child, so that a client that hangs can be killed."""
    lines = logging.StreamHandler(sys.stderr)
    if os.environ.get("DATAPREP_LOG_FORMAT") == "json":
        run = getattr(arguments, "run", None)
        about = {"job": os.environ.get("DATAPREP_JOB_NAME"), "runId": run if isinstance(run, str) else None}
        lines.setFormatter(JsonLines(lambda: about))
    else:
        lines.setFormatter(PlainLines("%(asctime)s %(levelname)s %(name)s %(message)s"))
    logging.basicConfig(level=logging.DEBUG if arguments.debug else logging.INFO if _in_pod() else logging.WARNING, handlers=[lines])
    guard()
    output = raw(sys.stdout)
    if isinstance(output, io.TextIOWrapper):
        # A terminal that is not UTF-8: shown with escapes, as on standard error.
        output.reconfigure(errors="backslashreplace")
    if _in_pod():
        from dataprep_converter.runtime.watchdog import supervise

        sys.exit(supervise(lambda: _code_of(arguments)))
    sys.exit(_code_of(arguments))


def _code_of(arguments: argparse.Namespace) -> int:
    """Runs the command; every error becomes one line and a code."""
    signal.signal(signal.SIGTERM, _terminated)
    tracing.set_up("dataprep")
    try:
        if arguments.command not in _LIGHT:
            # numpy's linear algebra starts a thread for each core when it is imported, and adds in another order where there are more of them.
            os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
            without_pandas.hide()
        code = int(arguments.command(arguments))
        sys.stdout.flush()
    except BaseException as exc:  # the top of the program
        if isinstance(exc, BrokenPipeError) and _reader_is_gone():
            return 128 + signal.SIGPIPE
        return int(_failed(exc, arguments))
    finally:
        tracing.shut_down()
    return code


def _terminated(_signal: int, _frame: FrameType | None) -> NoReturn:
    # Who signals a whole process group reaches us twice, by the group and by our parent; the second must not break the way out.
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    raise TerminatedError


def _reader_is_gone() -> bool:
    """Whether it is our output that nobody reads (`dataprep ls … | head`), and not a store's connection that broke."""
    try:
        descriptor = sys.stdout.fileno()
    except (OSError, ValueError):
        return False
    output = select.poll()
    output.register(descriptor, 0)
    gone = any(events & select.POLLERR for _, events in output.poll(0))
    if gone:
        # What is still buffered goes there when the interpreter ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), descriptor)
    return gone


def _failed(exc: BaseException, arguments: argparse.Namespace) -> Exit:
    """One clear line, and the termination message of a pod."""
    from dataprep_api.reasons import Reason
    from dataprep_converter.core.errors import ConvertError, StoreFull

    if isinstance(exc, SystemExit):
        raise exc
    if isinstance(exc, KeyboardInterrupt):
        _say("interrupted; finished shards are kept, the same command goes on where it stopped")
        return Exit.INTERRUPTED
    if isinstance(exc, TerminatedError):
        _say("terminated; finished shards are kept")
        return Exit.TERMINATED
    if arguments.debug:
        _print_traceback(exc)
    if isinstance(exc, SpecError):
        for fault in exc.faults:
            _say(f"error: {fault}")
        _leave_failure(Exit.BAD_SPEC, Reason.INVALID_SPEC, str(exc), arguments)
        return Exit.BAD_SPEC
    if isinstance(exc, OSError) and exc.errno in (errno.ENOSPC, errno.EDQUOT):
        import tempfile

        # What goes to a store is told by the store.
        exc = StoreFull(f"No space left for {exc.filename or f'temporary files in {tempfile.gettempdir()}'}: {exc.strerror}.")
    if isinstance(exc, ConvertError):
        _say(f"error: {exc}")
        _leave_failure(exc.exit, exc.reason, str(exc), arguments, uri=exc.uri)
        return exc.exit
    message = f"{type(exc).__name__}: {exc}"
    _say(f"error: {message} (a defect in dataprep; --debug shows where)")
    if not arguments.debug and _in_pod():
        _print_traceback(exc)
    _leave_failure(Exit.INTERNAL, Reason.INTERNAL_ERROR, message, arguments)
    return Exit.INTERNAL


def _say(text: str) -> None:
    """One line, whatever a foreign message holds."""
    sys.stderr.write(f"dataprep: {one_line(' '.join(text.split(chr(10))))}\n")


def _print_traceback(exc: BaseException) -> None:
    sys.stderr.write(shown("".join(traceback.format_exception(exc))))


# --- the pod's side ------------------------------------------------------------------------------------------------


def _in_pod() -> bool:
    return "DATAPREP_MOUNTS" in os.environ


def _leave(message: "PlanResult | CommitResult | WorkResult | RemoveResult") -> None:
    """Prints the result and leaves it as the pod's termination message."""
    from dataprep_api.dataset import messages

    if isinstance(message, messages.PlanResult | messages.CommitResult):
        message = message.model_copy(update={"warnings": [shown(warning)[:512] for warning in message.warnings]})
    text = messages.dump(message)
    _write_termination(text)
    sys.stdout.write(text + "\n")


def _leave_failure(code: Exit, reason: "Reason", message: str, arguments: argparse.Namespace, *, uri: str | None = None) -> None:
    from dataprep_api.dataset import messages

    if not _in_pod():
        return
    failure = messages.FailureResult(
        reason=reason,
        message=shown(message)[:2048],
        exit_code=int(code),
        index=getattr(arguments, "task", None),
        input=shown(uri)[:2048] if uri else None,
    )
    try:
        _write_termination(messages.dump(failure))
    except OSError as exc:
        logger.warning("no termination message: %s", exc)  # the error is the one to report


def _write_termination(text: str) -> None:
    if _in_pod():
        Path(os.environ.get("DATAPREP_TERMINATION_LOG", "/dev/termination-log")).write_text(text, encoding="utf-8")


# --- commands --------------------------------------------------------------------------------------------------------


def _run(arguments: argparse.Namespace) -> Exit:
    workers = ready_workers(arguments)
    from dataprep_converter.cli.display import Display
    from dataprep_converter.steps.run import run

    job = with_code(job_of(arguments))
    display = Display(quiet=arguments.quiet)
    try:
        with tracing.span("run", job=job.metadata.name) as tell:
            _, made = run(job, access=access_of(job), workers=workers, display=display)
            tell(run_id=made.run_id)
    finally:
        display.close()
    sys.stdout.write(f"{made.manifest_uri}\n")
    return Exit.DONE


def _plan(arguments: argparse.Namespace) -> Exit:
    from dataprep_converter.steps.plan_step import dry_run, run_plan_step

    job = with_code(job_of(arguments))
    if arguments.dry_run:
        planned = dry_run(job, access_of(job))
        sys.stdout.write(json.dumps(json.loads(planned.model_dump_json(by_alias=True, exclude_none=True)), indent=2) + "\n")
    else:
        with tracing.span("plan", job=job.metadata.name) as tell:
            planned = run_plan_step(job, access_of(job)).result
            tell(run_id=planned.run_id, tasks=planned.tasks, records=planned.records)
        found = "reused: a finished data set of the same spec and inputs is there" if planned.reused else f"{planned.tasks} tasks"
        logger.info("run %s: %d records in %d shards, %s", planned.run_id, planned.records, planned.shards, found)
        _leave(planned)
    return Exit.DONE


def _work(arguments: argparse.Namespace) -> Exit:
    from dataprep_api.dataset.plan import task as shards_of_task
    from dataprep_converter.cli.reporting import Reporter
    from dataprep_converter.core.errors import BadSpec
    from dataprep_converter.steps.kinds import kind_of

    job = with_code(job_of(arguments))
    kind = kind_of(job.spec)
    arguments.task = task = _task_number(arguments)
    access = access_of(job)
    with Reporter(index=task) as reporter, tracing.span("work", job=job.metadata.name, run_id=arguments.run, task=task) as tell:
        plan = _stored_plan(job, kind, access, arguments)
        if task >= plan.head.tasks:
            raise BadSpec(f"The plan has the tasks 0 to {plan.head.tasks - 1}, got {task}.")
        attempt = f"{os.environ.get('POD_NAME', 'local')}/{arguments.attempt}"
        shards = shards_of_task(plan.head, task)
        done = kind.work(job.spec, plan=plan, shards=shards, access=access, attempt=attempt, watch=reporter.watch).result(task)
        tell(shards=done.shards_done, records=done.records.out)
    _leave(done)
    return Exit.DONE


def _commit(arguments: argparse.Namespace) -> Exit:
    from dataprep_converter.steps.kinds import kind_of

    job = with_code(job_of(arguments))
    kind = kind_of(job.spec)
    access = access_of(job)
    plan = _stored_plan(job, kind, access, arguments)
    with tracing.span("commit", job=job.metadata.name, run_id=arguments.run) as tell:
        made = kind.commit(job.spec, plan=plan, access=access)
        tell(files=made.files, records=made.records.out)
    logger.info("committed %d records in %d files, %d bytes; manifest %s", made.records.out, made.files, made.bytes_out, made.manifest_uri)
    _leave(made)
    return Exit.DONE


def _remove(arguments: argparse.Namespace) -> Exit:
    from dataprep_converter.steps.remove import remove

    job = job_of(arguments)
    _leave(remove(job.spec.output.uri, access_of(job), runs=arguments.run))
    return Exit.DONE


def _fetch_code(arguments: argparse.Namespace) -> Exit:
    from dataprep_converter.cli import git_code
    from dataprep_converter.core.errors import BadSpec
    from dataprep_converter.inputs.store_settings import mounts_of_this_pod

    job = job_of(arguments)
    git = job.spec.code.git if job.spec.code is not None else None
    if git is None:
        raise BadSpec("The job has no code.git.")
    mounts = mounts_of_this_pod()
    credentials = git_code.mounted_credentials(mounts) if mounts else (os.environ.get("GIT_USERNAME"), os.environ.get("GIT_PASSWORD"))
    sys.stdout.write(git_code.fetch(git, Path(arguments.into), commit=arguments.commit, credentials=credentials) + "\n")
    return Exit.DONE


def _validate(arguments: argparse.Namespace) -> Exit:
    job = job_of(arguments)
    made_by = job.spec.data.kind if job.spec.script is None else "a script"
    sys.stdout.write(f"{job.metadata.name} is valid: {made_by} to {job.spec.output.format} at {job.spec.output.uri}\n")
    return Exit.DONE


def _inspect(arguments: argparse.Namespace) -> Exit:
    from dataprep_converter.tools import inspection

    if arguments.html is not None:
        _write(arguments.html, inspection.html(arguments.uri, access_to(arguments), records=max(arguments.records, 3)), option="--html")
        return Exit.DONE
    inspection.show(arguments.uri, access_to(arguments), records=arguments.records, as_json=arguments.json, stream=sys.stdout)
    return Exit.DONE


def _infer(arguments: argparse.Namespace) -> Exit:
    from dataprep_converter.tools import inference

    stores = (job_of(arguments).spec.stores or []) if arguments.job else []
    written = [store.model_dump(mode="json", by_alias=True, exclude_none=True, exclude_defaults=True) for store in stores]
    text = inference.infer(arguments.uri, access_to(arguments), output=arguments.to, stores=written)
    if arguments.output is None:
        raw(sys.stdout).write(text)
    else:
        _write(arguments.output, text, option="--output")
    return Exit.DONE


def _write(file: str, text: str, *, option: str) -> None:
    try:
        Path(file).write_text(text, encoding="utf-8")
    except OSError as exc:
        raise SpecError([Fault(option, f"can't write {file}: {exc.strerror}")]) from exc


def _ls(arguments: argparse.Namespace) -> Exit:
    from dataprep_converter.tools import inspection

    inspection.listing(arguments.uri, access_to(arguments), stream=sys.stdout)
    return Exit.DONE


def _logs(arguments: argparse.Namespace) -> Exit:
    from dataprep_converter.cli import pod_logs

    return pod_logs.show(arguments.job, namespace=arguments.namespace, failed=arguments.failed, follow=arguments.follow)


def _retry(arguments: argparse.Namespace) -> Exit:
    from dataprep_converter.cli import job_retry

    sys.stdout.write(job_retry.retry(arguments.job, namespace=arguments.namespace))
    return Exit.DONE


_LIGHT = (_validate, _fetch_code, _logs, _retry)
"""Commands that do without Arrow."""


# --- what commands share ---------------------------------------------------------------------------------------------


def _stored_plan(job: "DataPrepJob", kind: "Kind", access: "Access", arguments: argparse.Namespace) -> "Plan":
    """The plan that the plan step has made."""
    from dataprep_converter.dataset.output_folder import OutputFolder
    from dataprep_converter.dataset.stored_plan import load_plan

    folder = OutputFolder(job.spec.output.uri, access).of_run(arguments.run)
    return load_plan(folder, arguments.plan_sha256, runs_code=kind.runs_code)


def _task_number(arguments: argparse.Namespace) -> int:
    """The task of this pod: `--index` or JOB_COMPLETION_INDEX, looked up in `--tasks` when that is given."""
    from dataprep_converter.core.errors import BadSpec

    given = arguments.index if arguments.index is not None else os.environ.get("JOB_COMPLETION_INDEX")
    if given is None:
        raise BadSpec("Which task? Give --index N, or run as a pod of an Indexed Job (JOB_COMPLETION_INDEX).")
    try:
        index = int(given)
        tasks = _numbers(arguments.tasks) if arguments.tasks else None
    except ValueError:
        raise BadSpec(
            f"Expected a number for the index and numbers such as 0-3,7 for --tasks, got {given} and {arguments.tasks}."
        ) from None
    if index < 0:
        raise BadSpec(f"Indexes begin at 0, got {index}.")
    if tasks is None:
        return index
    if index >= len(tasks):
        raise BadSpec(f"Index {index} is beyond the {len(tasks)} tasks of --tasks {arguments.tasks}.")
    return tasks[index]


def _numbers(ranges: str) -> list[int]:
    """`0-3,7` is 0, 1, 2, 3, 7."""
    return [
        number for part in ranges.split(",") for low, _, high in [part.partition("-")] for number in range(int(low), int(high or low) + 1)
    ]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="dataprep", description="Raw data to training-ready shards, on this machine or as a step of a DataPrepJob."
    )
    parser.add_argument("--debug", action="store_true", help="log in detail and show tracebacks")
    parser.add_argument("--version", action="version", version=f"%(prog)s {__version__}")
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")

    run = job_command(commands, "run", "plan, convert and commit on this machine")
    add_workers(run)
    _limited(run)
    run.add_argument("--quiet", action="store_true", help="no progress")
    run.set_defaults(command=_run)

    plan = job_command(commands, "plan", "list the input and divide it into shards")
    _limited(plan)
    plan.add_argument("--dry-run", action="store_true", help="print the plan's figures and write nothing")
    plan.set_defaults(command=_plan)

    validate = job_command(commands, "validate", "check a job file without touching any store")
    validate.set_defaults(command=_validate)

    work = job_command(commands, "work", "convert one task of a plan (a converter pod runs this)")
    work.add_argument("--index", type=int, metavar="N", help="number of the task (default: JOB_COMPLETION_INDEX)")
    work.add_argument("--tasks", metavar="LIST", help="the tasks behind the indexes, as 0-3,7 (a retry's)")
    work.add_argument("--attempt", metavar="N", default="1", help="number of the attempt, for the report")
    work.set_defaults(command=_work, task=None)

    commit = job_command(commands, "commit", "check every shard, write the manifest and _SUCCESS")
    commit.set_defaults(command=_commit)
    for step in (work, commit):
        step.add_argument("--run", required=True, metavar="ID", help="run id, as printed by plan")
        step.add_argument("--plan-sha256", required=True, metavar="HEX", help="digest of the plan, as printed by plan")

    remove = job_command(commands, "remove", "remove the files that a job's runs wrote to its output, and no others")
    remove.add_argument("--run", required=True, action="append", metavar="ID", help="run id (repeatable), as printed by plan")
    remove.set_defaults(command=_remove)

    fetch_code = job_command(commands, "fetch-code", "fetch the code of code.git (an init container runs this)")
    fetch_code.add_argument("--into", required=True, metavar="DIR", help="folder for its files")
    fetch_code.add_argument("--commit", metavar="SHA", help="this commit instead of what code.git.ref is now")
    fetch_code.set_defaults(command=_fetch_code)

    checking_commands.add(commands)
    converting_command.add(commands)
    copying_command.add(commands)

    infer = commands.add_parser("infer", help="print a job for what a URI holds, as a start")
    infer.add_argument("uri", help="a file, folder or glob")
    infer.add_argument("--output", metavar="FILE", help="write the job there instead of printing it")
    infer.add_argument("--to", metavar="URI", help="output.uri of the job (default: a folder beside the input)")
    infer.add_argument("--job", metavar="FILE", help="a job file whose spec.stores says how to reach the store; they are taken over")
    infer.set_defaults(command=_infer, set=[])

    inspect = uri_command(commands, "inspect", "show what a finished data set holds")
    inspect.add_argument("--records", type=_count, default=1, metavar="N", help="records to show (default: 1)")
    inspect_form = inspect.add_mutually_exclusive_group()
    inspect_form.add_argument(
        "--json", action="store_true", help="manifest, statistics and records as JSON; bytes as one character each (Latin-1)"
    )
    inspect_form.add_argument("--html", metavar="FILE", help="write a report with histograms and a contact sheet of images there instead")
    inspect.set_defaults(command=_inspect)

    ls = uri_command(commands, "ls", "list a folder in the columns of hdfs dfs -ls")
    ls.set_defaults(command=_ls)

    logs = commands.add_parser("logs", help="logs of a DataPrepJob's pods (needs kubectl)")
    logs.add_argument("job", help="name of the DataPrepJob")
    logs.add_argument("-n", "--namespace", help="its namespace")
    logs.add_argument("--failed", action="store_true", help="only pods that failed")
    logs.add_argument("-f", "--follow", action="store_true", help="go on while the pods run")
    logs.set_defaults(command=_logs)
    retry = commands.add_parser("retry", help="try a failed DataPrepJob again; only what is missing is made (needs kubectl)")
    retry.add_argument("job", help="name of the DataPrepJob")
    retry.add_argument("-n", "--namespace", help="its namespace")
    retry.set_defaults(command=_retry)
    for command in commands.choices.values():
        # After the command too; SUPPRESS, because a default would undo what stands before it.
        command.add_argument("--debug", action="store_true", default=argparse.SUPPRESS, help=argparse.SUPPRESS)
    return parser


def _count(text: str) -> int:
    number = int(text)
    if number < 0:
        raise argparse.ArgumentTypeError(f"expected 0 or more, got {text}")
    return min(number, sys.maxsize)


def _limited(command: argparse.ArgumentParser) -> None:
    command.add_argument("--limit", type=int, metavar="N", help="only a sample of N records of the whole source (spec.limit)")
