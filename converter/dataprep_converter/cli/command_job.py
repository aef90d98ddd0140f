"""The job that `dataprep copy` and `dataprep convert` run: their shared arguments, and how the job is run or printed."""

import argparse
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from dataprep_api.exits import Exit
from dataprep_converter.cli.arguments import add_workers, job_of, ready_workers
from dataprep_converter.core.redaction import raw, yaml_text

if TYPE_CHECKING:
    from dataprep_converter.cli.display import Display
    from dataprep_converter.inputs.access import Access


def add_arguments(command: argparse.ArgumentParser, *, example: str, verb: str, of_processes: str = "") -> None:
    """Adds the shared arguments. `example` is a field of the spec, shown in the help text."""
    # `--set` changes the job that this command makes. The job file, which names the stores, stays unchanged.
    command.set_defaults(set=[])
    command.add_argument(
        "--set", dest="fields", action="append", default=[], metavar="FIELD=VALUE", help=f"set a field of the spec: {example}"
    )
    command.add_argument("--job", metavar="FILE", help="a job file whose spec.stores describes the stores")
    add_workers(command, of=of_processes)
    command.add_argument(
        "--print-job", action="store_true", help=f"only print the job, for example to run it on a cluster, and don't {verb} the data"
    )
    command.add_argument("--quiet", action="store_true", help="don't show progress")


# Any, because a document can contain values of any type.
def execute(
    arguments: argparse.Namespace, document: dict[str, Any], access: "Access", *, before: Callable[["Display"], None] | None = None
) -> Exit:
    """Calls `before` and runs the job. If `--print-job` is given, only prints the job.

    The stores are taken from the file in `--job`; `--set` changes single fields.
    """

    workers = 1 if arguments.print_job else ready_workers(arguments)
    from dataprep_api.resources.job import DataPrepJob
    from dataprep_converter.cli.display import Display
    from dataprep_converter.inputs import job_file
    from dataprep_converter.steps.run import run

    if arguments.job:
        stores = job_of(arguments).spec.stores or []
        document["spec"]["stores"] = [store.model_dump(mode="json", by_alias=True, exclude_none=True) for store in stores]
    for override in arguments.fields:
        job_file.set_field(document, override)
    job = DataPrepJob.parse(document)
    if arguments.print_job:
        raw(sys.stdout).write(yaml_text(document))
        return Exit.DONE
    display = Display(quiet=arguments.quiet)
    try:
        if before is not None:
            before(display)
        _, result = run(job, access=access, workers=workers, display=display)
    finally:
        display.close()
    sys.stdout.write(f"{result.manifest_uri}\n")
    return Exit.DONE
