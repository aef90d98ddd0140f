"""`dataprep explain`, `dataprep schema` and `dataprep completion`: commands that help users write jobs and commands."""

import argparse
import shutil
import sys

from dataprep_api.exits import Exit
from dataprep_converter.core.redaction import raw

_SHELLS = ("bash", "zsh", "fish")
_MOST_WIDTH = 100


def add(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Adds the three commands."""
    explain = commands.add_parser("explain", help="explain a field of a job, such as output.shards, without a cluster")
    explain.add_argument("field", nargs="?", default="", metavar="FIELD", help="path of the field (default: the document's fields)")
    explain.add_argument("--list", action="store_true", help="only list the paths of all fields")
    explain.set_defaults(command=_explain, is_light=True)

    schema = commands.add_parser("schema", help="print the JSON Schema of jobs, for editors")
    schema.set_defaults(command=_schema, is_light=True)

    completion = commands.add_parser("completion", help="print a script that completes dataprep's commands in a shell")
    completion.add_argument("shell", choices=_SHELLS, help="the shell")
    completion.set_defaults(command=_completion, is_light=True)


def _explain(arguments: argparse.Namespace) -> Exit:
    from dataprep_api.errors import Fault, SpecError
    from dataprep_converter.cli.help import field_explanation

    width = min(_MOST_WIDTH, shutil.get_terminal_size().columns)
    try:
        explanation, path = field_explanation.explanation_of(arguments.field)
    except KeyError as exc:
        field, several = exc.args
        if several:
            raise SpecError([Fault("", f"several fields are called {field}: {', '.join(several)}; give more of the path")]) from exc
        # Imported here because it loads pydantic, which the explanation doesn't need.
        from dataprep_api.suggest import nearest

        names = {part for path in field_explanation.explanation_of("")[0].paths() for part in (path, path.rpartition(".")[2])}
        raise SpecError([Fault("", f"there is no field {arguments.field!r}{nearest(field, sorted(names))}")]) from exc
    if arguments.list:
        sys.stdout.write("".join(f"{each}\n" for each in explanation.paths()))
    else:
        sys.stdout.write(explanation.text(path, width=width))
    return Exit.DONE


def _schema(arguments: argparse.Namespace) -> Exit:
    from dataprep_converter.cli.help import field_explanation

    del arguments
    # The schema contains patterns that match credentials' names. These patterns must not be redacted.
    raw(sys.stdout).write(field_explanation.schema_text())
    return Exit.DONE


def _completion(arguments: argparse.Namespace) -> Exit:
    from dataprep_converter.cli import commands
    from dataprep_converter.cli.help import shell_completion

    _, parsers = commands.parsers()
    raw(sys.stdout).write(shell_completion.script(arguments.shell, parsers))
    return Exit.DONE
