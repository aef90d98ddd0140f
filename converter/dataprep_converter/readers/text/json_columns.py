"""Determines the columns of `jsonl` files from the first records: the keys, their types, and their paths. Only the planner does this."""

import json
from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import Any, Final

from dataprep_api.spec.sources.jsonl import JsonlColumn
from dataprep_converter.core.errors import BadSpec
from dataprep_converter.readers.columnar.columns import check_names
from dataprep_converter.records.digits import keeps_digits

_ADVICE: Final = "give source.jsonl.columns"

Path = tuple[str, ...]


@dataclass
class _PathTypes:
    """The kinds of values that were found at one path."""

    kinds: dict[str, int] = field(default_factory=dict)
    """For each kind, the line on which it was first found."""


class _Float64(float):
    """A number that would lose digits as a float32."""


class _Int64(int):
    """A 64-bit whole number that would lose digits as a float32."""


_LONG: Final = "long Int64"
_NUMBERS: Final = frozenset({"Int64", _LONG, "Float32", "Float64"})


def infer_columns(
    lines: Sequence[tuple[int, bytes]], columns: Sequence[JsonlColumn] | None, uri: str, *, rule: int
) -> list[tuple[JsonlColumn, Path]]:
    """The columns and their paths in a record, inferred from some lines of the file `uri`. `rule` is the version of the inference rule.

    `lines` are pairs (line number, line). Raises BadSpec if the spec names a column twice, or if a key's type can't be determined.
    """
    seen: dict[Path, _PathTypes] = {}
    for number, line in lines:
        try:
            record = json.loads(line) if rule == 1 else json.loads(line, parse_float=_parse_number, parse_int=_parse_whole_number)
        except (ValueError, RecursionError):
            # A broken line becomes a bad record later, so ignore it here.
            continue
        if isinstance(record, dict):
            for path, kind in _leaves((), record):
                seen.setdefault(path, _PathTypes()).kinds.setdefault(kind, number)
    if columns is not None:
        check_names([column.name for column in columns], "source.jsonl.columns")
        columns_and_paths = [(column, _path(column.name, seen)) for column in columns]
    else:
        columns_and_paths = [(_column(path, each, uri), path) for path, each in seen.items() if set(each.kinds) != {"object"}]
        check_names([column.name for column, _ in columns_and_paths], uri)
        if lines and not columns_and_paths:
            raise BadSpec(f"{uri}: there is no key in the first records; {_ADVICE}.")
    paths = {path for _, path in columns_and_paths}
    for column, path in columns_and_paths:
        if any(path[:length] in paths for length in range(1, len(path))):
            raise BadSpec(
                f"{uri if columns is None else 'source.jsonl.columns'}: {column.name!r} is inside a column that is not an object."
            )
    return columns_and_paths


def _leaves(path: Path, value: dict[str, Any]) -> Iterator[tuple[Path, str]]:
    """Yields the path and kind of each value that is not an object, and of each empty object."""
    for key, each in value.items():
        if isinstance(each, dict) and each:
            yield from _leaves((*path, key), each)
        else:
            yield (*path, key), _kind(each)


def _parse_number(text: str) -> float:
    return float(text) if keeps_digits(text) else _Float64(text)


def _parse_whole_number(text: str) -> int | float:
    value = int(text)
    if not -(2**63) <= value < 2**63:
        return _parse_number(text)
    return value if keeps_digits(text) else _Int64(value)


def _common(kinds: AbstractSet[str]) -> str:
    """The numeric kind that can represent the values of all given kinds."""
    if kinds <= {"Int64", _LONG}:
        return _LONG if _LONG in kinds else "Int64"
    return "Float32" if kinds <= {"Int64", "Float32"} else "Float64"


def _kind(value: Any) -> str:
    if isinstance(value, list):
        kinds = {_kind(each) for each in value} - {"null"}
        if kinds and kinds <= _NUMBERS:
            kinds = {_common(kinds)}
        return f"list of {kinds.pop()}" if len(kinds) == 1 else "empty list" if not kinds else "list of several types"
    if isinstance(value, bool):
        return "Bool"
    if isinstance(value, int):
        return _LONG if isinstance(value, _Int64) else "Int64" if -(2**63) <= value < 2**63 else "Float32"
    if isinstance(value, float):
        return "Float64" if isinstance(value, _Float64) else "Float32"
    if isinstance(value, str):
        return "String"
    return "object" if isinstance(value, dict) else "null"


def _path(name: str, seen: dict[Path, _PathTypes]) -> Path:
    """The path of a column in the spec. A key with exactly the column's name takes precedence over keys inside objects."""
    if (name,) in seen:
        return (name,)
    return next((path for path in seen if "/".join(path) == name), tuple(name.split("/")))


def _column(path: Path, seen: _PathTypes, uri: str) -> JsonlColumn:
    """The column for the values at one path. Whole numbers become Int64, other numbers Float32 or Float64, `true` and `false` Bool, and text
    String."""
    name = "/".join(path)
    kinds = {kind: line for kind, line in seen.kinds.items() if kind not in ("null", "empty list")}
    for of in ("", "list of "):
        numbers = {kind: line for kind, line in kinds.items() if kind.startswith(of) and kind.removeprefix(of) in _NUMBERS}
        if numbers:
            common = _common({kind.removeprefix(of) for kind in numbers})
            kinds = {kind: line for kind, line in kinds.items() if kind not in numbers}
            kinds[of + ("Int64" if common == _LONG else common)] = min(numbers.values())
    if not kinds:
        what = "only empty lists" if "empty list" in seen.kinds else "null"
        raise BadSpec(
            f"{uri}: the type of {name!r} can't be determined, because it is {what} in the first records; "
            f"{_ADVICE}, with or without this key."
        )
    if len(kinds) > 1 or ("empty list" in seen.kinds and not next(iter(kinds)).startswith("list")):
        first: dict[str, int] = {}
        for seen_kind, line in seen.kinds.items():
            first.setdefault(seen_kind.replace(_LONG, "Int64"), line)
        types = ", ".join(f"{each} (line {line})" for each, line in first.items() if each != "null")
        raise BadSpec(f"{uri}: {name!r} has values of several types: {types}; {_ADVICE}, with or without this key.")
    kind = next(iter(kinds))
    single = kind.removeprefix("list of ")
    if single not in ("Int64", "Float32", "Float64", "String", "Bool"):
        raise BadSpec(f"{uri}, line {kinds[kind]}: {name!r} is a {kind}, which records can't contain; {_ADVICE} without it.")
    if not 1 <= len(name) <= 256:
        raise BadSpec(f"{uri}, line {kinds[kind]}: a key has {len(name)} characters; columns have 1 to 256. {_ADVICE.capitalize()}.")
    return JsonlColumn.model_validate({"name": name, "type": single, "list": kind != single})
