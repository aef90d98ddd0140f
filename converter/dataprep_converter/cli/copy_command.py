"""The command `dataprep copy`.

A data set is copied by a job with `source.dataset` and `format: copy`; other files are copied without a job.
"""

import argparse
import sys
from typing import TYPE_CHECKING

from dataprep_api import API_VERSION, KIND
from dataprep_api.errors import Fault, SpecError
from dataprep_api.exits import Exit
from dataprep_converter.cli import command_job
from dataprep_converter.cli.arguments import access_to

if TYPE_CHECKING:
    from dataprep_converter.inputs.access import Access


def add(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Adds the command."""
    copy = commands.add_parser("copy", help="copy a finished data set, or any file or folder, to another folder or store, byte for byte")
    copy.add_argument("uri", metavar="FROM", help="folder of a finished data set, or any file or folder")
    copy.add_argument("to", metavar="TO", help="folder of the copy; for a single file, the new name, or a folder with a slash at the end")
    copy.add_argument("--overwrite", action="store_true", help="replace an existing data set or files (default: fail if they differ)")
    command_job.add_arguments(copy, example="output.hdfs.replication=2", verb="copy", of_processes=", each copying 8 files at a time")
    copy.set_defaults(command=_copy)


def _copy(arguments: argparse.Namespace) -> Exit:
    access = access_to(arguments)
    if not arguments.print_job and not _is_data_set(arguments.uri, access):
        return _copy_files(arguments, access)
    source, output = (uri.replace("$", "$$") for uri in (arguments.uri, arguments.to))
    overwrite = "Always" if arguments.overwrite else "Never"
    document = {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "metadata": {"name": "copy"},
        "spec": {"source": {"dataset": {"uri": source}}, "output": {"uri": output, "format": "copy", "overwrite": overwrite}},
    }
    return command_job.execute(arguments, document, access)


def _is_data_set(uri: str, access: "Access") -> bool:
    from dataprep_converter.tools import file_copy

    return file_copy.is_data_set(uri, access)


def _copy_files(arguments: argparse.Namespace, access: "Access") -> Exit:
    from dataprep_converter.tools import file_copy

    if arguments.fields:
        raise SpecError(
            [Fault("--set", f"{arguments.uri} isn't a data set; other files are copied without a job, so there are no fields to set")]
        )
    result = file_copy.copy(arguments.uri, arguments.to, access, overwrite=arguments.overwrite)
    if not arguments.quiet:
        already_there = f", {result.kept:,} existed already" if result.kept else ""
        sys.stderr.write(f"copied {result.files:,} file{'s' * (result.files != 1)}, {result.size:,} bytes{already_there}\n")
    sys.stdout.write(f"{arguments.to}\n")
    return Exit.DONE
