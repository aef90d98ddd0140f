"""`${NAME}` in the strings of a spec, filled from `spec.params`."""

import re
from collections.abc import Mapping
from typing import Any

from dataprep_api.errors import Fault, SpecError

_REFERENCE = re.compile(r"\$(?:\$|\{([^}]*)\})")


def fill(value: Any, params: Mapping[str, str], *, path: str) -> Any:
    """`value` (any YAML value, hence Any) with every `${NAME}` replaced and `$$` turned into `$`.

    Raises SpecError naming each reference that has no param, with its field path.
    """
    faults: list[Fault] = []
    filled = _fill(value, params, path, faults)
    if faults:
        raise SpecError(faults)
    return filled


def _fill(value: Any, params: Mapping[str, str], path: str, faults: list[Fault]) -> Any:
    if isinstance(value, str):
        return _REFERENCE.sub(lambda found: _replacement(found, params, path, faults), value)
    if isinstance(value, list):
        return [_fill(item, params, f"{path}[{i}]", faults) for i, item in enumerate(value)]
    if isinstance(value, dict):
        return {key: _fill(item, params, f"{path}.{key}", faults) for key, item in value.items()}
    return value


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
