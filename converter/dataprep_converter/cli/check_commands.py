"""`dataprep verify` and `dataprep repair`."""

import argparse
import itertools
import sys
from typing import TYPE_CHECKING

from dataprep_api.exits import Exit
from dataprep_api.redaction import one_line
from dataprep_converter.cli import json_output
from dataprep_converter.cli.arguments import access_to, add_workers, job_of, ready_workers, uri_command, with_code
from dataprep_converter.cli.json_output import add_json

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dataprep_api.dataset.report import Manifest
    from dataprep_converter.dataset.crosscheck import Fault


def add(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Adds both commands."""
    verify = uri_command(commands, "verify", "read a finished data set again and check every byte")
    verify.add_argument("--expect", metavar="HEX", help="the expected SHA-256 of the manifest, or the expected digest of the data set")
    verify.add_argument("--all", action="store_true", help="list every fault, not only the first")
    verify.add_argument("--every-record", action="store_true", help="parse every record, not only 64 of each file")
    add_json(verify, "the result and the faults")
    verify.set_defaults(command=_verify)

    repair = commands.add_parser("repair", help="make the broken or missing files of a data set again, from the stored plan")
    repair.add_argument("uri", help="folder of the data set")
    repair.add_argument(
        "--job",
        metavar="FILE",
        help="file of the job that made the data set, with its stores, code and HDFS options; needed if the manifest is damaged",
    )
    repair.add_argument("--set", action="append", default=[], metavar="FIELD=VALUE", help="override a field of the job: params.input=DIR")
    add_workers(repair)
    repair.set_defaults(command=_repair)


def _verify(arguments: argparse.Namespace) -> Exit:
    from dataprep_converter.core.errors import NotWhole
    from dataprep_converter.tools import verification

    uri = arguments.uri
    check = verification.Verification(uri, access_to(arguments), expect=arguments.expect)
    faults = check.faults(every_record=arguments.every_record)
    if arguments.json:
        return _verify_as_json(uri, check.manifest, list(faults if arguments.all else itertools.islice(faults, 1)))
    if arguments.all:
        count = 0
        for fault in faults:
            count += 1
            sys.stdout.write(one_line(f"{uri}: {fault.text}.") + "\n")
        if count:
            raise NotWhole(f"{uri} has {count} fault{'s' * (count != 1)}.")
    elif (first := next(faults, None)) is not None:
        raise NotWhole(f"{uri}: {first.text}.")
    verified = check.manifest
    sys.stdout.write(
        f"{uri} is whole: {verified.records_out:,} record{'s' * (verified.records_out != 1)} in {len(verified.files)} file{'s' * (len(verified.files) != 1)}, {verified.size:,} bytes; digest {verified.digest}\n"
    )
    return Exit.DONE


def _verify_as_json(uri: str, manifest: "Manifest", faults: "Sequence[Fault]") -> Exit:
    from dataprep_converter.core.errors import NotWhole

    json_output.write(
        {
            "uri": uri,
            "whole": not faults,
            "records": manifest.records_out,
            "files": len(manifest.files),
            "bytes": manifest.size,
            "digest": manifest.digest,
            "faults": [{"file": fault.path, "fault": fault.text} for fault in faults],
        }
    )
    if faults:
        raise NotWhole(f"{uri}: {faults[0].text}.")
    return Exit.DONE


def _repair(arguments: argparse.Namespace) -> Exit:
    workers = ready_workers(arguments)
    from dataprep_converter.tools import repair

    job = with_code(job_of(arguments)) if arguments.job else None
    result = repair.repair(arguments.uri, access_to(arguments), job=job, workers=workers)
    for file in result.shards:
        sys.stdout.write(one_line(f"rewritten: {file}") + "\n")
    for fault in result.other_faults:
        sys.stdout.write(one_line(f"repaired: {fault}") + "\n")
    if not result.shards and not result.other_faults:
        sys.stdout.write("nothing to repair\n")
    sys.stdout.write(f"{arguments.uri} is whole; manifest {result.manifest_sha256}\n")
    return Exit.DONE
