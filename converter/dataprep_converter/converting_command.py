"""`dataprep convert`: its arguments. What it runs is a job with `source.dataset`."""

import argparse
import sys

from dataprep_api.exits import Exit
from dataprep_converter import limits
from dataprep_converter.arguments import access_to


def add(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Adds the command."""
    convert = commands.add_parser("convert", help="write a finished data set again in another format")
    convert.add_argument("uri", metavar="FROM", help="folder of a finished data set of any format")
    convert.add_argument("to", metavar="TO", help="folder of the new data set")
    convert.add_argument("--format", required=True, metavar="NAME", help="output.format of the new one: tfrecord, parquet, …")
    convert.add_argument("--set", action="append", default=[], metavar="FIELD=VALUE", help="a field of the spec: output.shards.count=8")
    convert.add_argument("--job", metavar="FILE", help="a job file whose spec.stores says how to reach the stores")
    convert.add_argument("--workers", type=int, metavar="N", help="processes (default: one a core, and fewer where memory is short)")
    convert.add_argument("--print-job", action="store_true", help="print the job, for a cluster, and convert nothing")
    convert.add_argument("--quiet", action="store_true", help="no progress")
    convert.set_defaults(command=_convert)


def _convert(arguments: argparse.Namespace) -> Exit:
    import yaml

    from dataprep_api.job import DataPrepJob
    from dataprep_converter import converting, job_file
    from dataprep_converter.arguments import job_of
    from dataprep_converter.display import Display
    from dataprep_converter.readers.dataset import finished
    from dataprep_converter.run import run
    from dataprep_converter.verifying import verify

    overrides, arguments.set = arguments.set, []
    access = access_to(arguments)
    manifest = finished(arguments.uri, access)
    document = converting.job_of(manifest, source=arguments.uri, output=arguments.to, format_=arguments.format)
    if arguments.job:
        stores = job_of(arguments).spec.stores or []
        document["spec"]["stores"] = [store.model_dump(mode="json", by_alias=True, exclude_none=True) for store in stores]
    for override in overrides:
        job_file.set_field(document, override)
    job = DataPrepJob.parse(document)
    if arguments.print_job:
        sys.stdout.write(yaml.safe_dump(document, sort_keys=False, allow_unicode=True))
        return Exit.DONE
    display = Display(quiet=arguments.quiet)
    try:
        display.step("verifying")
        # Not every format has checksums of its own, and what is written carries the digest of what was read.
        verify(arguments.uri, access, expect=manifest.digest)
        _, made = run(job, access=access, workers=arguments.workers or limits.processes(), display=display)
    finally:
        display.close()
    sys.stdout.write(f"{made.manifest_uri}\n")
    return Exit.DONE
