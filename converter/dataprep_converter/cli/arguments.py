"""Arguments that commands share: the job or data set, the stores to reach it, and the number of workers."""

import argparse
from typing import TYPE_CHECKING

from dataprep_api.errors import Fault, SpecError
from dataprep_converter.runtime import limits

if TYPE_CHECKING:
    from dataprep_api.resources.job import DataPrepJob
    from dataprep_converter.inputs.access import Access


def job_command(commands: "argparse._SubParsersAction[argparse.ArgumentParser]", name: str, help_text: str) -> argparse.ArgumentParser:
    """Adds a command that works on a job's file."""
    command = commands.add_parser(name, help=help_text)
    command.add_argument("job", nargs="?", metavar="FILE", help="the job's YAML file, or - for standard input")
    command.add_argument("--job", dest="job_option", metavar="FILE", help="the job's YAML file, given as an option")
    command.add_argument(
        "--set", action="append", default=[], metavar="FIELD=VALUE", help="override a field of the spec: output.uri=out, params.input=DIR"
    )
    command.add_argument(
        "--profile", metavar="FILE", help="YAML file of a DataPrepProfile, which provides the stores and workers that the job leaves out"
    )
    return command


def uri_command(commands: "argparse._SubParsersAction[argparse.ArgumentParser]", name: str, help_text: str) -> argparse.ArgumentParser:
    """Adds a command that works on a data set."""
    command = commands.add_parser(name, help=help_text)
    command.add_argument("uri", help="folder of the data set")
    command.add_argument("--job", metavar="FILE", help="a job file whose spec.stores describes the store")
    command.add_argument("--set", action="append", default=[], help=argparse.SUPPRESS)
    return command


def add_workers(command: argparse.ArgumentParser, *, of: str = "") -> None:
    """Adds `--workers`; `of` extends its help text."""
    command.add_argument(
        "--workers", type=positive, metavar="N", help=f"number of processes{of} (default: one per core, or fewer if memory is short)"
    )


def positive(text: str) -> int:
    """Returns the number in an option. Raises ArgumentTypeError if it isn't a positive whole number."""
    if not text.isdecimal() or int(text) == 0:
        raise argparse.ArgumentTypeError(f"expected a whole number of at least 1, got {text!r}")
    return int(text)


def ready_workers(arguments: argparse.Namespace) -> int:
    """Returns the number of workers: the given number, or a number that fits the machine's cores and memory.

    Call this function early, because it starts the fork server, which imports modules while the command does other things.
    """
    count: int = arguments.workers or limits.processes()
    if count > 1:
        from dataprep_converter.runtime import fork_server

        fork_server.get_ready()
    return count


def job_of(arguments: argparse.Namespace, *, new: bool = False) -> "DataPrepJob":
    """Returns the job that the command's arguments name. `new` is false for a job that the API server has accepted. Raises SpecError."""
    from dataprep_converter.inputs import job_file

    file = arguments.job or getattr(arguments, "job_option", None)
    if file is None:
        raise SpecError([Fault("", "which job? Give its YAML file")])
    limit = getattr(arguments, "limit", None)
    overrides = [*arguments.set, *([f"limit={limit}"] if limit is not None else [])]
    return job_file.load(file, overrides=overrides, profile=getattr(arguments, "profile", None), new=new)


def with_code(job: "DataPrepJob") -> "DataPrepJob":
    """Returns the job, after fetching its code from Git if the job names a Git repository."""
    if job.spec.code is not None and job.spec.code.git is not None:
        from dataprep_converter.cli import git_code

        git_code.provide(job.spec)
    return job


def access_of(job: "DataPrepJob") -> "Access":
    """Returns access to the stores that the job configures."""
    from dataprep_converter.inputs import store_settings

    return store_settings.access_of(job)


def access_to(arguments: argparse.Namespace) -> "Access":
    """Returns access to the stores that are configured in the `--job` file or, without that option, by the environment."""
    from dataprep_converter.inputs.access import Access

    return access_of(job_of(arguments)) if arguments.job else Access()
