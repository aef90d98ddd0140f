"""Replaces each `${NAME}` in the strings of a spec with the value from `spec.params`. In a command's arguments, NAME can also be an environment variable."""

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from dataprep_api.errors import Fault, SpecError

_REFERENCE = re.compile(r"\$(?:\$|\{([^}]*)\})")
_VARIABLE = re.compile(r"\$(?:\$|\(([^)]*)\))")


def fill(value: Any, params: Mapping[str, str], *, path: str) -> Any:
    """Return `value` with every `${NAME}` replaced by its param's value, and every `$$` replaced by `$`. The type is Any, because `value` can
    be any YAML value.

    Raises SpecError, which names each reference to an undefined param, with its field path.
    """
    faults: list[Fault] = []
    filled = _fill(value, params, path, faults)
    if faults:
        raise SpecError(faults)
    return filled


def fill_command(words: Sequence[Any], params: Mapping[str, str], *, variables: Collection[str], path: str) -> list[Any]:
    """Translate the words of a command into the syntax of a container's command: `$(NAME)` is an environment variable, and `$$` is a dollar sign.

    `${NAME}` becomes the value of the param NAME. If there is no such param, it becomes a reference to the variable NAME in `variables`.
    `$$` stays as it is. All other dollar signs, including those in params' values, are escaped. Raises SpecError, which names each
    reference that is neither a param nor a variable.
    """
    replacements = {name: f"$({name})" for name in variables} | {name: escape_dollars(value) for name, value in params.items()}
    faults: list[Fault] = []

    def fill_word(word: Any, location: str) -> Any:
        if not isinstance(word, str):
            return word  # the model reports the wrong type
        parts: list[str] = []
        end = 0
        for match in _REFERENCE.finditer(word):
            parts.append(escape_dollars(word[end : match.start()]))
            parts.append("$$" if match[0] == "$$" else _replace_variable(match, replacements, location, faults))
            end = match.end()
        return "".join(parts) + escape_dollars(word[end:])

    filled_words = [fill_word(word, f"{path}[{i}]") for i, word in enumerate(words)]
    if faults:
        raise SpecError(faults)
    return filled_words


def escape_dollars(text: str) -> str:
    """Escape the dollar signs of a text, so that Kubernetes passes it on unchanged in a container's command."""
    return text.replace("$", "$$")


def expanded(word: str, environment: Mapping[str, str]) -> str:
    """Expand `$(NAME)` references in a container's argument, as Kubernetes does. Raises KeyError for an unknown variable."""
    return _VARIABLE.sub(lambda match: "$" if match[0] == "$$" else environment[match[1]], word)


def _fill(value: Any, params: Mapping[str, str], path: str, faults: list[Fault]) -> Any:
    if isinstance(value, str):
        return _REFERENCE.sub(lambda match: _replace_param(match, params, path, faults), value)
    if isinstance(value, list):
        return [_fill(item, params, f"{path}[{i}]", faults) for i, item in enumerate(value)]
    if isinstance(value, dict):
        return {key: _fill(item, params, f"{path}.{key}", faults) for key, item in value.items()}
    return value


def _replace_variable(match: re.Match[str], replacements: Mapping[str, str], path: str, faults: list[Fault]) -> str:
    if match[1] not in replacements:
        names = ", ".join(sorted(replacements)) or "none"
        faults.append(
            Fault(path, f"${{{match[1]}}} is neither in spec.params nor in spec.workers.env (known: {names}); write $$ for a dollar sign")
        )
    return replacements.get(match[1], "")


def _replace_param(match: re.Match[str], params: Mapping[str, str], path: str, faults: list[Fault]) -> str:
    if match[0] == "$$":
        return "$"
    name = match[1]
    if name not in params:
        names = ", ".join(sorted(params)) or "none"
        faults.append(
            Fault(
                path,
                f"${{{name}}} is not in spec.params (known: {names}); set it with --set params.{name}=VALUE, or write $$ for a dollar sign",
            )
        )
        return ""
    return params[name]
