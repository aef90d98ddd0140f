"""`dataprep copy`: its arguments. What it runs is a job with `source.dataset` and `format: copy`."""

import argparse
import sys

from dataprep_api.exits import Exit
from dataprep_converter import limits
from dataprep_converter.arguments import access_to


def add(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Adds the command."""
    copy = commands.add_parser("copy", help="copy a finished data set to another place or store, byte for byte")
    copy.add_argument("uri", metavar="FROM", help="folder of a finished data set")
    copy.add_argument("to", metavar="TO", help="folder of the copy")
    copy.add_argument(
        "--overwrite", action="store_true", help="replace the data set that is there (default: refuse, unless it is this one)"
    )
    copy.add_argument("--set", action="append", default=[], metavar="FIELD=VALUE", help="a field of the spec: output.hdfs.replication=2")
    copy.add_argument("--job", metavar="FILE", help="a job file whose spec.stores says how to reach the stores")
    copy.add_argument(
        "--workers",
        type=int,
        metavar="N",
        help="processes, of 8 files at a time each (default: one a core, and fewer where memory is short)",
    )
    copy.add_argument("--print-job", action="store_true", help="print the job, for a cluster, and copy nothing")
    copy.add_argument("--quiet", action="store_true", help="no progress")
    copy.set_defaults(command=_copy)


def _copy(arguments: argparse.Namespace) -> Exit:
    import yaml

    from dataprep_api.job import DataPrepJob
    from dataprep_converter import job_file
    from dataprep_converter.arguments import job_of
    from dataprep_converter.display import Display
    from dataprep_converter.run import run

    overrides, arguments.set = arguments.set, []
    access = access_to(arguments)
    overwrite = "Always" if arguments.overwrite else "Never"
    source, output = (uri.replace("$", "$$") for uri in (arguments.uri, arguments.to))
    document = {
        "apiVersion": "dataprep.io/v1alpha1",
        "kind": "DataPrepJob",
        "metadata": {"name": "copy"},
        "spec": {"source": {"dataset": {"uri": source}}, "output": {"uri": output, "format": "copy", "overwrite": overwrite}},
    }
    if arguments.job:
        stores = job_of(arguments).spec.stores or []
        document["spec"] |= {"stores": [store.model_dump(mode="json", by_alias=True, exclude_none=True) for store in stores]}  # type: ignore[operator]  # a document's values are of any kind
    for override in overrides:
        job_file.set_field(document, override)
    job = DataPrepJob.parse(document)
    if arguments.print_job:
        sys.stdout.write(yaml.safe_dump(document, sort_keys=False, allow_unicode=True))
        return Exit.DONE
    display = Display(quiet=arguments.quiet)
    try:
        _, made = run(job, access=access, workers=arguments.workers or limits.processes(), display=display)
    finally:
        display.close()
    sys.stdout.write(f"{made.manifest_uri}\n")
    return Exit.DONE
