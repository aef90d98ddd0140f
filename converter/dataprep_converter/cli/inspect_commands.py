"""`dataprep infer`, `dataprep inspect`, `dataprep head` and `dataprep ls`: commands that show the data at a URI."""

import argparse
import sys
from pathlib import Path

from dataprep_api.errors import Fault, SpecError
from dataprep_api.exits import Exit
from dataprep_converter.cli import json_output
from dataprep_converter.cli.arguments import access_to, job_of, uri_command
from dataprep_converter.cli.json_output import add_json
from dataprep_converter.core.redaction import raw


def add(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Adds the commands."""
    infer = commands.add_parser("infer", help="print a job for the data at a URI, as a starting point")
    infer.add_argument("uri", help="a file, folder or glob")
    infer.add_argument("--output", metavar="FILE", help="write the job to this file instead of printing it")
    infer.add_argument("--to", metavar="URI", help="output.uri of the job (default: a folder beside the input)")
    infer.add_argument(
        "--job", metavar="FILE", help="a job file whose spec.stores describes the store; spec.stores is copied to the new job"
    )
    infer.set_defaults(command=_infer, set=[])

    inspect = uri_command(commands, "inspect", "show the contents of a finished data set, or of other files")
    inspect.add_argument("--records", type=_count, default=1, metavar="N", help="records to show (default: 1)")
    inspect_form = inspect.add_mutually_exclusive_group()
    inspect_form.add_argument(
        "--json", action="store_true", help="print manifest, statistics and records as JSON, with each byte as one character (Latin-1)"
    )
    inspect_form.add_argument(
        "--html", metavar="FILE", help="print nothing, and write a report with histograms and some images of each class to this file"
    )
    inspect.set_defaults(command=_inspect)

    head = uri_command(commands, "head", "show the first records of a finished data set, or of other files")
    head.add_argument("--records", type=_count, default=5, metavar="N", help="records to show (default: 5)")
    add_json(head, "the records")
    head.set_defaults(command=_head)

    ls = uri_command(commands, "ls", "list a folder, with the same columns as hdfs dfs -ls")
    add_json(ls, "the files")
    ls.set_defaults(command=_ls)


def _infer(arguments: argparse.Namespace) -> Exit:
    from dataprep_converter.cli.help import field_explanation
    from dataprep_converter.tools.infer import inference

    stores = (job_of(arguments).spec.stores or []) if arguments.job else []
    store_settings = [store.model_dump(mode="json", by_alias=True, exclude_none=True, exclude_defaults=True) for store in stores]
    # This line lets editors check and complete the job's fields.
    modeline = f"# yaml-language-server: $schema={field_explanation.SCHEMA_FILE.as_uri()}\n"
    text = modeline + inference.infer(arguments.uri, access_to(arguments), output=arguments.to, stores=store_settings)
    if arguments.output is None:
        raw(sys.stdout).write(text)
    else:
        _write(arguments.output, text, option="--output")
    return Exit.DONE


def _inspect(arguments: argparse.Namespace) -> Exit:
    from dataprep_converter.tools.inspect import inspection, raw_inspection

    if arguments.html is not None:
        _write(arguments.html, inspection.html(arguments.uri, access_to(arguments), records=max(arguments.records, 3)), option="--html")
        return Exit.DONE
    access = access_to(arguments)
    if raw_inspection.is_raw(arguments.uri, access):
        found = raw_inspection.look(arguments.uri, access, records=arguments.records)
        raw_inspection.show(found, as_json=arguments.json, stream=sys.stdout)
    else:
        inspection.show(arguments.uri, access, records=arguments.records, as_json=arguments.json, stream=sys.stdout)
    return Exit.DONE


def _head(arguments: argparse.Namespace) -> Exit:
    from dataprep_converter.tools.inspect import inspection, raw_inspection

    access = access_to(arguments)
    if raw_inspection.is_raw(arguments.uri, access):
        found = raw_inspection.look(arguments.uri, access, records=arguments.records)
        raw_inspection.show(found, as_json=arguments.json, stream=sys.stdout, only_records=True)
    else:
        inspection.show_records(arguments.uri, access, records=arguments.records, as_json=arguments.json, stream=sys.stdout)
    return Exit.DONE


def _ls(arguments: argparse.Namespace) -> Exit:
    from dataprep_converter.tools.inspect import inspection

    if arguments.json:
        json_output.write(inspection.listing_document(arguments.uri, access_to(arguments)))
    else:
        inspection.listing(arguments.uri, access_to(arguments), stream=sys.stdout)
    return Exit.DONE


def _write(file: str, text: str, *, option: str) -> None:
    try:
        Path(file).write_text(text, encoding="utf-8")
    except OSError as exc:
        raise SpecError([Fault(option, f"can't write {file}: {exc.strerror}")]) from exc


def _count(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"expected a whole number of at least 0, got {text!r}")
    return min(int(text), sys.maxsize)
