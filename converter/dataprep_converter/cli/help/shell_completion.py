"""Scripts that complete dataprep's commands, options, files and fields in bash, zsh and fish. They are generated from the parsers."""

import argparse
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

Parsers = Mapping[str, argparse.ArgumentParser]

_FIELD_OPTION: Final = "--set"
_LIST_FIELDS: Final = r"dataprep explain --list 2>/dev/null | sed 's/^spec\.//'"
"""The command with which bash and zsh list the fields for `--set`."""


@dataclass(frozen=True)
class _Command:
    """What can follow a command's name."""

    name: str
    help: str
    options: Sequence[tuple[str, str, bool]]
    """Each long option, its help text, and whether a value follows it."""
    words: Sequence[str]
    """The values of the command's first argument, if they are known. Otherwise files are completed."""


def script(shell: str, parsers: Parsers) -> str:
    """Returns the script for a shell. The shell's start-up file evaluates it."""
    commands = [_command(name, parser) for name, parser in parsers.items()]
    return _SCRIPTS[shell](commands)


def _command(name: str, parser: argparse.ArgumentParser) -> _Command:
    actions = [action for action in parser._actions if action.help != argparse.SUPPRESS]  # noqa: SLF001 - argparse has no public list
    options = [
        (option, (action.help or "").replace("%%", "%"), action.nargs != 0)
        for action in actions
        for option in action.option_strings
        if option.startswith("--")
    ]
    words = next((list(action.choices) for action in actions if not action.option_strings and action.choices), [])
    return _Command(name, _first_line(parser), options, words)


def _first_line(parser: argparse.ArgumentParser) -> str:
    return (parser.description or "").partition(".")[0]


def _bash(commands: Sequence[_Command]) -> str:
    cases = "\n".join(
        f'        {command.name}) options="{" ".join(option for option, _, _ in command.options)}"; words="{" ".join(command.words)}" ;;'
        for command in commands
    )
    return f"""\
# dataprep's completion for bash: eval "$(dataprep completion bash)"
_dataprep() {{
    local current=${{COMP_WORDS[COMP_CWORD]}} previous=${{COMP_WORDS[COMP_CWORD-1]}} command="" options="--debug --help --version" words="" word
    for word in "${{COMP_WORDS[@]:1:COMP_CWORD-1}}"; do
        if [[ $word != -* ]]; then command=$word; break; fi
    done
    COMPREPLY=()
    if [[ -z $command ]]; then
        words="{" ".join(command.name for command in commands)}"
        COMPREPLY=($(compgen -W "$words $options" -- "$current"))
        return
    fi
    case $command in
{cases}
        *) return ;;
    esac
    if [[ $current == -* ]]; then
        COMPREPLY=($(compgen -W "$options" -- "$current"))
    elif [[ $previous == {_FIELD_OPTION} ]]; then
        COMPREPLY=($(compgen -S = -W "$({_LIST_FIELDS})" -- "$current"))
        compopt -o nospace 2>/dev/null
    elif [[ $command == explain ]]; then
        COMPREPLY=($(compgen -W "$({_LIST_FIELDS})" -- "$current"))
    elif [[ -n $words ]]; then
        COMPREPLY=($(compgen -W "$words" -- "$current"))
    else
        compopt -o default 2>/dev/null
    fi
}}
complete -F _dataprep dataprep
"""


def _zsh(commands: Sequence[_Command]) -> str:
    names = "\n".join(f"        {_quoted(f'{command.name}:{command.help}')}" for command in commands)
    cases = "\n".join(f"        {command.name}) _arguments {' '.join(_zsh_arguments(command))} ;;" for command in commands)
    return f"""\
#compdef dataprep
# dataprep's completion for zsh: eval "$(dataprep completion zsh)", after compinit
_dataprep_fields() {{
    local -a fields
    fields=(${{(f)"$({_LIST_FIELDS})"}})
    compadd "$@" -a fields
}}
_dataprep() {{
    local -a commands
    commands=(
{names}
    )
    if (( CURRENT == 2 )); then
        _describe command commands
        return
    fi
    local command=$words[2]
    shift words
    (( CURRENT-- ))
    case $command in
{cases}
    esac
}}
compdef _dataprep dataprep
"""


def _zsh_arguments(command: _Command) -> list[str]:
    arguments = []
    for option, help_text, takes_value in command.options:
        value = ":field:_dataprep_fields -S =" if option == _FIELD_OPTION else ":value:_files"
        repeated = "*" if option == _FIELD_OPTION else ""
        description = help_text.replace("[", "(").replace("]", ")").replace(":", " -")
        arguments.append(_quoted(f"{repeated}{option}[{description}]{value if takes_value else ''}"))
    rest = f"({' '.join(command.words)})" if command.words else "_dataprep_fields" if command.name == "explain" else "_files"
    return [*arguments, _quoted(f"*:argument:{rest}")]


_FISH_FUNCTIONS: Final = """\
# dataprep's completion for fish: dataprep completion fish | source
function __dataprep_fields
    dataprep explain --list 2>/dev/null | string replace -r '^spec\\.' ''
end
function __dataprep_assignments
    for field in (__dataprep_fields)
        echo $field=
    end
end"""


def _fish(commands: Sequence[_Command]) -> str:
    lines = [_FISH_FUNCTIONS]
    for command in commands:
        seen = f"-n '__fish_seen_subcommand_from {command.name}'"
        lines.append(f"complete -c dataprep -n __fish_use_subcommand -f -a {command.name} -d {_quoted(command.help)}")
        for option, help_text, takes_value in command.options:
            value = " -r" if takes_value else ""
            if option == _FIELD_OPTION:
                value = " -x -a '(__dataprep_assignments)'"
            lines.append(f"complete -c dataprep {seen} -l {option.removeprefix('--')}{value} -d {_quoted(help_text)}")
        if command.words:
            lines.append(f"complete -c dataprep {seen} -f -a {_quoted(' '.join(command.words))}")
        elif command.name == "explain":
            lines.append(f"complete -c dataprep {seen} -f -a '(__dataprep_fields)'")
    return "\n".join(lines) + "\n"


def _quoted(text: str) -> str:
    """Returns the text as one shell word. Quotes are left out, because zsh and fish escape them differently."""
    return "'" + text.replace("'", "").replace("\\", "") + "'"


_SCRIPTS: Final[Mapping[str, Callable[[Sequence[_Command]], str]]] = {"bash": _bash, "zsh": _zsh, "fish": _fish}
