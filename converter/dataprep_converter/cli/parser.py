"""The command line parser, whose errors are short and name the word that was probably meant."""

import argparse
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import NoReturn


class Parser(argparse.ArgumentParser):
    """A parser whose errors say which command or option was probably meant, and where to read more."""

    def error(self, message: str) -> NoReturn:
        """Prints the usage and the error, and exits with 2."""
        self.print_usage(sys.stderr)
        self.exit(2, f"{self.prog}: error: {message} (see {self.prog} --help)\n")


def parse(parser: Parser, commands: Mapping[str, argparse.ArgumentParser], argv: Sequence[str]) -> argparse.Namespace:
    """Returns the parsed arguments. Exits with 2 if they are invalid. If there is no command, first prints the complete help."""
    command = next((word for word in argv if not word.startswith("-")), None)
    if command is None and not {"-h", "--help", "--version"}.intersection(argv):
        parser.print_help(sys.stderr)
        parser.exit(2)
    if command is not None and command not in commands:
        parser.error(f"there is no command {command!r}{_nearest(command, commands)}")
    arguments, rest = parser.parse_known_args(argv)
    if rest and command is not None:
        options = [option for action in commands[command]._actions for option in action.option_strings]  # noqa: SLF001 - argparse has no public list
        option = next((word.partition("=")[0] for word in rest if word.startswith("--")), "")
        commands[command].error(f"unknown arguments: {' '.join(rest)}{_nearest(option, options) if option else ''}")
    return arguments


def _nearest(word: str, known: Iterable[str]) -> str:
    # Imported here because it loads pydantic, which most commands don't need yet.
    from dataprep_api.suggest import nearest

    return nearest(word, known)
