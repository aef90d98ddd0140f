"""The steps of a job as commands: `dataprep run|plan|validate`, and the commands that pods run:
`scan|work|shuffle|commit|remove|fetch-code`.

Heavy modules are imported by the command that needs them, so that `dataprep --help` is quick.
"""

import argparse
import logging
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from dataprep_api import tracing
from dataprep_api.errors import Fault, SpecError
from dataprep_api.exits import Exit
from dataprep_api.names import MAY_SCAN, ONE_POD, TWO_ROUNDS
from dataprep_converter.cli import json_output
from dataprep_converter.cli.arguments import access_of, add_workers, job_command, job_of, positive, ready_workers, with_code
from dataprep_converter.cli.json_output import add_json
from dataprep_converter.cli.pod_messages import leave, leave_in_advance

if TYPE_CHECKING:
    from dataprep_api.dataset.messages import CommitResult, PlanResult
    from dataprep_api.resources.job import DataPrepJob
    from dataprep_converter.inputs.access import Access
    from dataprep_converter.sampling.plan import Plan
    from dataprep_converter.steps.executors import Executors
    from dataprep_converter.steps.kinds import Kind
    from dataprep_converter.steps.plan_step import PlannedRun

logger = logging.getLogger(__name__)


def add(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Adds the commands for complete jobs and for single steps."""
    _add_whole_jobs(commands)
    _add_steps(commands)


def _add_whole_jobs(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    run = job_command(commands, "run", "plan, convert and commit on this machine")
    add_workers(run)
    _add_limit(run)
    run.add_argument("--engine", choices=("local", "spark"), default="local", help="where the tasks run (default: local, this machine)")
    run.add_argument(
        "--master", metavar="URL", help="with --engine spark: local[4], spark://host:7077, yarn (default: the master of spark-submit)"
    )
    run.add_argument(
        "--conf",
        type=_setting,
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="with --engine spark: a setting of Spark (repeatable)",
    )
    run.add_argument("--quiet", action="store_true", help="don't show progress")
    add_json(run, "the result")
    run.set_defaults(command=_run)

    plan = job_command(commands, "plan", "list the input and divide it into shards")
    _add_limit(plan)
    how = plan.add_mutually_exclusive_group()
    how.add_argument("--dry-run", action="store_true", help="print what the job would do and its likely mistakes, without writing anything")
    how.add_argument(
        "--scan",
        metavar="ID",
        help="don't request a scan, however large the input is; use the stored results of this scan (set in the pod of the merge step)",
    )
    add_json(plan, "the figures of --dry-run")
    plan.set_defaults(command=run_plan, is_tuned=True)

    validate = job_command(commands, "validate", "check a job file without touching any store")
    validate.set_defaults(command=_validate, is_light=True)


def _add_steps(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    scan = job_command(commands, "scan", "scan one part of a large input for the plan (a pod of the scan step runs this)")
    scan.add_argument("--scan", required=True, metavar="ID", help="name of the scan that the plan step asked for")
    scan.add_argument("--parts", required=True, type=positive, metavar="N", help="number of parts of the scan")
    scan.set_defaults(command=_scan, task=None)

    work = job_command(commands, "work", "convert one task of a plan (a converter pod runs this)")
    work.add_argument("--attempt", metavar="N", default="1", help="number of the attempt, for the report")
    work.set_defaults(command=_work, task=None, is_tuned=True)

    shuffle = job_command(
        commands, "shuffle", "divide one slice of a plan's input among the tasks (a pod of a shuffle's first round runs this)"
    )
    shuffle.set_defaults(command=_shuffle, task=None, is_tuned=True)

    commit = job_command(commands, "commit", "check every shard, write the manifest and _SUCCESS")
    commit.set_defaults(command=_commit)
    for step, share in ((scan, "part"), (shuffle, "slice"), (work, "task")):
        step.add_argument("--index", type=int, metavar="N", help=f"number of the {share} (default: JOB_COMPLETION_INDEX)")
        step.add_argument(
            "--tasks", metavar="LIST", help=f"numbers of the {share}s of a retry, such as 0-3,7; --index is then a position in this list"
        )
    for step in (work, shuffle, commit):
        step.add_argument("--run", required=True, metavar="ID", help="run id, as printed by plan")
        step.add_argument("--plan-sha256", required=True, metavar="HEX", help="digest of the plan, as printed by plan")

    remove = job_command(commands, "remove", "remove only the files that a job's runs wrote to its output")
    remove.add_argument("--run", required=True, action="append", metavar="ID", help="run id (repeatable), as printed by plan")
    remove.set_defaults(command=_remove)

    fetch_code = job_command(commands, "fetch-code", "fetch the code of code.git (an init container runs this)")
    fetch_code.add_argument("--into", required=True, metavar="DIR", help="folder to write the files to")
    fetch_code.add_argument("--commit", metavar="SHA", help="fetch this commit instead of the commit that code.git.ref names now")
    fetch_code.set_defaults(command=_fetch_code, is_light=True)


def _add_limit(command: argparse.ArgumentParser) -> None:
    command.add_argument("--limit", type=positive, metavar="N", help="use only a sample of N records from the whole source (spec.limit)")


def _run(arguments: argparse.Namespace) -> Exit:
    workers = ready_workers(arguments)
    from dataprep_converter.cli.display import Display
    from dataprep_converter.steps.run import run

    job = with_code(job_of(arguments, new=True))
    display = Display(quiet=arguments.quiet)
    try:
        with tracing.span("run", job=job.metadata.name) as tell:
            with _executors(arguments, job) as executors:
                _, result = run(job, access=access_of(job), workers=workers, display=display, executors=executors)
            tell(run_id=result.run_id)
    finally:
        display.close()
    if arguments.json:
        json_output.write(json_output.document(result))
    else:
        sys.stdout.write(f"{result.manifest_uri}\n")
    return Exit.DONE


def _setting(text: str) -> tuple[str, str]:
    """Returns the name and the value of one of Spark's settings."""
    name, equals, value = text.partition("=")
    if not equals or not name.startswith("spark."):
        raise argparse.ArgumentTypeError(f"expected a setting such as spark.executor.memory=2g, got {text!r}")
    return name, value


@contextmanager
def _executors(arguments: argparse.Namespace, job: "DataPrepJob") -> "Iterator[Executors | None]":
    """Starts a Spark application if the tasks run on its executors."""
    if arguments.engine == "local":
        if arguments.master is not None or arguments.conf:
            raise SpecError([Fault("", "--master and --conf are for --engine spark")])
        yield None
        return
    from dataprep_converter.steps.executors import executors_of

    with executors_of(arguments.master, dict(arguments.conf), name=job.metadata.name) as executors:
        yield executors


def run_plan(arguments: argparse.Namespace, *, executors: "Executors | None" = None) -> Exit:
    """Plans the job. If `executors` is given, Spark may join the job's tables."""
    from dataprep_converter.runtime import allocator
    from dataprep_converter.steps import lineage
    from dataprep_converter.steps.conversion.scan_step import scan_request
    from dataprep_converter.steps.plan_step import dry_run, run_plan_step

    job = with_code(job_of(arguments))
    access = access_of(job)
    if executors is not None:
        access.sql_engine = executors.sql_engine(job)
    # `run_plan_step` also tunes the allocator, but a dry run and a scan request don't call `run_plan_step`.
    allocator.tune_allocator()
    if arguments.dry_run and arguments.json:
        with _planning(access):
            figures = dry_run(job, access)
        json_output.write(json_output.document(figures))
    elif arguments.dry_run:
        from dataprep_converter.cli import plan_text
        from dataprep_converter.tools.plan_preview import preview

        with _planning(access):
            shown = preview(job, access)
        sys.stdout.writelines(f"{line}\n" for line in plan_text.lines(shown.result, shown))
    else:
        # The operator sets TWO_ROUNDS if it starts pods for the first round of a shuffle.
        access.divides_shuffles = TWO_ROUNDS in os.environ
        pods, may_scan = None, False
        if arguments.scan is None:
            # The operator sets ONE_POD if this pod may also do the other steps of a small job. It sets MAY_SCAN if several pods may scan a
            # large input.
            pods, may_scan = os.environ.get(ONE_POD), MAY_SCAN in os.environ
        with _planning(access), tracing.span("plan", job=job.metadata.name) as tell:
            if may_scan and (request := scan_request(job, access)) is not None:
                logger.info("the source is scanned in %d parts before it is planned", request.parts)
                leave(request)
                return Exit.DONE
            planned = run_plan_step(job, access, pods=pods)
            result = planned.result
            tell(run_id=result.run_id, tasks=result.tasks, records=result.records)
        outcome = (
            "reused: there is a finished data set with the same spec and inputs"
            if result.reused
            else f"{result.tasks} task{'s' * (result.tasks != 1)}"
        )
        logger.info("run %s: %d records in %d shards, %s", result.run_id, result.records, result.shards, outcome)
        with lineage.of_step(job, access) as told:
            told.planned(planned.plan)
            if pods is not None:
                result = _finished_if_small(job, planned, access)
            leave(result)
            if result.commit is not None:
                told.committed(result.commit)
    return Exit.DONE


def _finished_if_small(job: "DataPrepJob", planned: "PlannedRun", access: "Access") -> "PlanResult":
    """Does the work and the commit of a small job. Returns the plan's result, with the commit's result if there is one."""
    from dataprep_converter.cli.reporter import Reporter
    from dataprep_converter.steps import one_pod

    if not one_pod.is_small(planned):
        return planned.result
    leave_in_advance(planned.result)
    with Reporter(index=0, budgets=access.budgets, plan=planned.result) as reporter:
        result = one_pod.finish(job, planned, access, attempt=_attempt(os.environ.get("DATAPREP_ATTEMPT", "1")), watch=reporter.watch)
    if result.commit is not None:
        _log_commit(result.commit)
    return result


@contextmanager
def _planning(access: "Access") -> Iterator[None]:
    """Shows a bar on a terminal while the block makes a plan."""
    from dataprep_converter.cli.display import Display

    display = Display(quiet=not sys.stderr.isatty())
    display.planning(access.progress)
    try:
        yield
    finally:
        display.close()


def _validate(arguments: argparse.Namespace) -> Exit:
    job = job_of(arguments, new=True)
    maker = job.spec.data.kind if job.spec.script is None else "a script"
    sys.stdout.write(f"{job.metadata.name} is valid: {maker} to {job.spec.output.format} at {job.spec.output.uri}\n")
    return Exit.DONE


def _scan(arguments: argparse.Namespace) -> Exit:
    from dataprep_converter.core.errors import BadSpec
    from dataprep_converter.steps.conversion.scan_step import run_scan_step

    job = with_code(job_of(arguments))
    arguments.task = part = _task_number(arguments)
    if part >= arguments.parts:
        raise BadSpec(f"The scan has parts 0 to {arguments.parts - 1}, got part {part}.")
    access = access_of(job)
    access.share_among(min(job.spec.workers.parallelism, arguments.parts))
    with tracing.span("scan", job=job.metadata.name, scan=arguments.scan, part=part):
        run_scan_step(job.spec, access, part, scan=arguments.scan)
    return Exit.DONE


def _work(arguments: argparse.Namespace) -> Exit:
    from dataprep_api.dataset.plan import task as shards_of_task
    from dataprep_converter.cli.reporter import Reporter
    from dataprep_converter.core.errors import BadSpec
    from dataprep_converter.steps.kinds import kind_of

    job = with_code(job_of(arguments))
    kind = kind_of(job.spec)
    arguments.task = task = _task_number(arguments)
    access = access_of(job)
    with (
        Reporter(index=task, budgets=access.budgets) as reporter,
        tracing.span("work", job=job.metadata.name, run_id=arguments.run, task=task) as tell,
    ):
        plan = _stored_plan(job, kind, access, arguments)
        if task >= plan.head.tasks:
            raise BadSpec(f"The plan has tasks 0 to {plan.head.tasks - 1}, got task {task}.")
        shards = shards_of_task(plan.head, task)
        access.share_among(min(job.spec.workers.parallelism, plan.head.tasks))
        result = kind.work(
            job.spec, plan=plan, shards=shards, access=access, attempt=_attempt(arguments.attempt), watch=reporter.watch
        ).result(task)
        tell(shards=result.shards_done, records=result.records.out)
    leave(result)
    return Exit.DONE


def _shuffle(arguments: argparse.Namespace) -> Exit:
    from dataprep_converter.cli.reporter import Reporter
    from dataprep_converter.core.errors import BadSpec
    from dataprep_converter.steps.conversion.shuffle import shuffle_task, shuffle_tasks
    from dataprep_converter.steps.kinds import Conversion, kind_of

    job = with_code(job_of(arguments))
    arguments.task = number = _task_number(arguments)
    kind = kind_of(job.spec)
    if not isinstance(kind, Conversion):
        raise BadSpec("Only a conversion has the first round of a shuffle; this job is a copy or a script.")
    access = access_of(job)
    with (
        Reporter(index=number, budgets=access.budgets) as reporter,
        tracing.span("shuffle", job=job.metadata.name, run_id=arguments.run, task=number) as tell,
    ):
        plan = _stored_plan(job, kind, access, arguments)
        tasks = shuffle_tasks(plan)
        if number >= tasks:
            raise BadSpec(f"The first round of the plan's shuffle has {tasks} tasks, numbered from 0; got task {number}.")
        access.share_among(min(job.spec.workers.parallelism, tasks))
        done = shuffle_task(job.spec, number, plan=plan, access=access, watch=reporter.watch)
        tell(records=done.records_in, bytes=done.bytes_out)
    logger.info("divided %d records of slice %d, %d bytes", done.records_in, number, done.bytes_out)
    return Exit.DONE


def _commit(arguments: argparse.Namespace) -> Exit:
    from dataprep_converter.steps import lineage
    from dataprep_converter.steps.kinds import kind_of

    job = with_code(job_of(arguments))
    kind = kind_of(job.spec)
    access = access_of(job)
    plan = _stored_plan(job, kind, access, arguments)
    with tracing.span("commit", job=job.metadata.name, run_id=arguments.run) as tell:
        result = kind.commit(job.spec, plan=plan, access=access)
        tell(files=result.files, records=result.records.out)
    _log_commit(result)
    with lineage.of_step(job, access) as told:
        leave(result)
        told.planned(plan)
        told.committed(result)
    return Exit.DONE


def _attempt(number: str) -> str:
    """Returns the name that shard reports use for this process."""
    return f"{os.environ.get('POD_NAME', 'local')}/{number}"


def _log_commit(result: "CommitResult") -> None:
    logger.info(
        "committed %d records in %d files, %d bytes; manifest %s", result.records.out, result.files, result.bytes_out, result.manifest_uri
    )


def _remove(arguments: argparse.Namespace) -> Exit:
    from dataprep_converter.steps.remove import remove

    job = job_of(arguments)
    leave(remove(job.spec.output.uri, access_of(job), runs=arguments.run))
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


def _stored_plan(job: "DataPrepJob", kind: "Kind", access: "Access", arguments: argparse.Namespace) -> "Plan":
    """Returns the plan that the plan step stored."""
    from dataprep_converter.dataset.output_folder import OutputFolder
    from dataprep_converter.dataset.stored_plan import load_plan

    access.write_to(job.spec.output.uri)
    folder = OutputFolder(job.spec.output.uri, access).of_run(arguments.run)
    return load_plan(folder, arguments.plan_sha256, runs_code=kind.runs_code)


def _task_number(arguments: argparse.Namespace) -> int:
    """Returns the number of this pod's task.

    The task's index is `--index` or JOB_COMPLETION_INDEX. Without `--tasks`, this index is also the task's number; with `--tasks`, the
    number is the entry at this index in the list.
    """
    from dataprep_converter.core.errors import BadSpec

    index_text = arguments.index if arguments.index is not None else os.environ.get("JOB_COMPLETION_INDEX")
    if index_text is None:
        raise BadSpec("Which task? Give --index N, or run as a pod of an Indexed Job (JOB_COMPLETION_INDEX).")
    try:
        index = int(index_text)
        tasks = _numbers(arguments.tasks) if arguments.tasks else None
    except ValueError:
        raise BadSpec(
            f"Expected a number for the index and numbers such as 0-3,7 for --tasks, got {index_text} and {arguments.tasks}."
        ) from None
    if index < 0:
        raise BadSpec(f"Indexes begin at 0, got {index}.")
    if tasks is None:
        return index
    if index >= len(tasks):
        raise BadSpec(f"Index {index} is beyond the {len(tasks)} tasks of --tasks {arguments.tasks}.")
    return tasks[index]


def _numbers(ranges: str) -> list[int]:
    """Returns the numbers in the ranges: `0-3,7` gives 0, 1, 2, 3, 7."""
    return [
        number for part in ranges.split(",") for low, _, high in [part.partition("-")] for number in range(int(low), int(high or low) + 1)
    ]
