"""`dataprep copy`: its arguments. What it runs is a job with `source.dataset` and `format: copy`."""

import argparse

from dataprep_api import API_VERSION, KIND
from dataprep_api.exits import Exit
from dataprep_converter import made_jobs
from dataprep_converter.arguments import access_to


def add(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Adds the command."""
    copy = commands.add_parser("copy", help="copy a finished data set to another place or store, byte for byte")
    copy.add_argument("uri", metavar="FROM", help="folder of a finished data set")
    copy.add_argument("to", metavar="TO", help="folder of the copy")
    copy.add_argument(
        "--overwrite", action="store_true", help="replace the data set that is there (default: refuse, unless it is this one)"
    )
    made_jobs.add_arguments(copy, example="output.hdfs.replication=2", verb="copy", of_processes=", of 8 files at a time each")
    copy.set_defaults(command=_copy)


def _copy(arguments: argparse.Namespace) -> Exit:
    source, output = (uri.replace("$", "$$") for uri in (arguments.uri, arguments.to))
    overwrite = "Always" if arguments.overwrite else "Never"
    document = {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "metadata": {"name": "copy"},
        "spec": {"source": {"dataset": {"uri": source}}, "output": {"uri": output, "format": "copy", "overwrite": overwrite}},
    }
    return made_jobs.execute(arguments, document, access_to(arguments))
