"""`${NAME}` in the strings of a spec, filled from `spec.params`; in the words of a command also from the environment."""

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from dataprep_api.errors import Fault, SpecError

_REFERENCE = re.compile(r"\$(?:\$|\{([^}]*)\})")
_VARIABLE = re.compile(r"\$(?:\$|\(([^)]*)\))")


def fill(value: Any, params: Mapping[str, str], *, path: str) -> Any:
    """`value` (any YAML value, hence Any) with every `${NAME}` replaced and `$$` turned into `$`.

    Raises SpecError naming each reference that has no param, with its field path.
    """
    faults: list[Fault] = []
    filled = _fill(value, params, path, faults)
    if faults:
        raise SpecError(faults)
    return filled


def fill_command(words: Sequence[Any], params: Mapping[str, str], *, variables: Collection[str], path: str) -> list[Any]:
    """The words of a command as a container has them: `$(NAME)` is a variable of its environment, and `$$` a dollar sign.

    `${NAME}` is the param of that name, or else one of `variables`; `$$`, and a dollar sign of a param or before anything else, is itself.
    Raises SpecError naming each reference that is neither.
    """
    known = {name: f"$({name})" for name in variables} | {name: escaped(value) for name, value in params.items()}
    faults: list[Fault] = []

    def filled(word: Any, at: str) -> Any:
        if not isinstance(word, str):
            return word  # the model says what is wrong with it
        parts: list[str] = []
        end = 0
        for found in _REFERENCE.finditer(word):
            parts.append(escaped(word[end : found.start()]))
            parts.append("$$" if found[0] == "$$" else _variable(found, known, at, faults))
            end = found.end()
        return "".join(parts) + escaped(word[end:])

    done = [filled(word, f"{path}[{i}]") for i, word in enumerate(words)]
    if faults:
        raise SpecError(faults)
    return done


def escaped(text: str) -> str:
    """Text that stays as it is among the words of a container's command."""
    return text.replace("$", "$$")


def expanded(word: str, environment: Mapping[str, str]) -> str:
    """What a container's word becomes: as Kubernetes does it. Raises KeyError for a variable that isn't there."""
    return _VARIABLE.sub(lambda found: "$" if found[0] == "$$" else environment[found[1]], word)


def _fill(value: Any, params: Mapping[str, str], path: str, faults: list[Fault]) -> Any:
    if isinstance(value, str):
        return _REFERENCE.sub(lambda found: _replacement(found, params, path, faults), value)
    if isinstance(value, list):
        return [_fill(item, params, f"{path}[{i}]", faults) for i, item in enumerate(value)]
    if isinstance(value, dict):
        return {key: _fill(item, params, f"{path}.{key}", faults) for key, item in value.items()}
    return value


def _variable(found: re.Match[str], known: Mapping[str, str], path: str, faults: list[Fault]) -> str:
    if found[1] not in known:
        names = ", ".join(sorted(known)) or "none"
        faults.append(
            Fault(path, f"${{{found[1]}}} is neither in spec.params nor in spec.workers.env (known: {names}); write $$ for a dollar sign")
        )
    return known.get(found[1], "")


def _replacement(found: re.Match[str], params: Mapping[str, str], path: str, faults: list[Fault]) -> str:
    if found[0] == "$$":
        return "$"
    name = found[1]
    if name not in params:
        known = ", ".join(sorted(params)) or "none"
        faults.append(
            Fault(
                path,
                f"${{{name}}} is not in spec.params (known: {known}); set it with --set params.{name}=VALUE, or write $$ for a dollar sign",
            )
        )
        return ""
    return params[name]
