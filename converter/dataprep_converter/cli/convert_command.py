"""The command `dataprep convert`, which runs a job with `source.dataset`."""

import argparse
from typing import TYPE_CHECKING

from dataprep_api.exits import Exit
from dataprep_converter.cli import command_job
from dataprep_converter.cli.arguments import access_to

if TYPE_CHECKING:
    from dataprep_converter.cli.display import Display


def add(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Adds the command."""
    convert = commands.add_parser("convert", help="write a finished data set again in another format")
    convert.add_argument("uri", metavar="FROM", help="folder of a finished data set of any format")
    convert.add_argument("to", metavar="TO", help="folder of the new data set")
    convert.add_argument("--format", required=True, metavar="NAME", help="output.format of the new data set: tfrecord, parquet, …")
    command_job.add_arguments(convert, example="output.shards.count=8", verb="convert")
    convert.set_defaults(command=_convert)


def _convert(arguments: argparse.Namespace) -> Exit:
    from dataprep_converter.dataset.listing import load_manifest
    from dataprep_converter.tools import conversion
    from dataprep_converter.tools.verification import verify

    access = access_to(arguments)
    manifest = load_manifest(arguments.uri, access)

    def check(display: "Display") -> None:
        display.step("verifying")
        # The new data set's manifest will contain the input data set's digest. But the job can't detect every damaged byte of the input,
        # because not every format has checksums. So verify the input first.
        verify(arguments.uri, access, expect=manifest.digest)

    document = conversion.job_of(manifest, source=arguments.uri, output=arguments.to, format_=arguments.format)
    return command_job.execute(arguments, document, access, before=check)
