"""Determines the columns of `jsonl` files from the first records: the keys, their types, and their paths. Only the planner does this."""

import json
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

import pyarrow as pa

from dataprep_api.dataset.run_id import FLAT, StructRule
from dataprep_api.spec.sources.jsonl import JsonlColumn
from dataprep_converter.core.errors import BadSpec
from dataprep_converter.readers.columnar.columns import check_names, shown
from dataprep_converter.readers.text.json_nested import NestedColumn, SeveralTypes, kind_of
from dataprep_converter.records.digits import keeps_digits

_ADVICE: Final = "give source.jsonl.columns"
_EXPECTED: Final = 'source.jsonl reads an object in each line, such as {"a": 1}, or a file that is one array of objects.'

Path = tuple[str, ...]
AnyColumn: TypeAlias = JsonlColumn | NestedColumn


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
_SINGLE: Final = frozenset({*_NUMBERS, "String", "Bool", "kept object", "null"})
"""The kinds of values that aren't lists."""


def infer_columns(
    lines: Sequence[tuple[int, bytes]],
    columns: Sequence[JsonlColumn] | None,
    uri: str,
    *,
    rule: int,
    structs: StructRule = FLAT,
    asked: Sequence[str] = (),
) -> list[tuple[AnyColumn, Path]]:
    """The columns and their paths in a record, inferred from some lines of the file `uri`. `rule` is the version of the inference rule, and
    `structs` says which objects become columns themselves. `asked` contains the keys that the spec keeps as nested values.

    `lines` are pairs (line number, line). Raises BadSpec if the spec names a column twice, or if a key's type can't be determined.
    """
    seen: dict[Path, _PathTypes] = {}
    nested = _Nested(structs, frozenset(asked))
    for number, line in lines:
        try:
            record = json.loads(line) if rule == 1 else json.loads(line, parse_float=_parse_number, parse_int=_parse_whole_number)
        except (ValueError, RecursionError):
            # A broken line becomes a bad record later, so ignore it here.
            continue
        if isinstance(record, dict):
            for path, kind in _leaves((), record, nested):
                seen.setdefault(path, _PathTypes()).kinds.setdefault(kind, number)
    if columns is not None:
        check_names([*(column.name for column in columns), *asked], "source.jsonl.columns")
        columns_and_paths: list[tuple[AnyColumn, Path]] = [(column, _path(column.name, seen)) for column in columns]
        columns_and_paths += [(column, path) for column, path in _inferred(_only(seen, nested), nested, uri) if column.name in nested.asked]
    else:
        columns_and_paths = _inferred(seen, nested, uri)
        check_names([column.name for column, _ in columns_and_paths], uri)
        if lines and not columns_and_paths:
            raise BadSpec(_no_keys([line for _, line in lines], uri, first=lines[0][0]))
    if lines:
        _check_asked(columns_and_paths, nested, uri)
    paths = {path for column, path in columns_and_paths if not _is_object(column)}
    for column, path in columns_and_paths:
        if any(path[:length] in paths for length in range(1, len(path))):
            raise BadSpec(
                f"{uri if columns is None else 'source.jsonl.columns'}: {column.name!r} is inside a column that is not an object."
            )
    return columns_and_paths


def _no_keys(lines: Sequence[bytes], uri: str, *, first: int) -> str:
    """The message that says why the first records have no keys. `first` is the line number of the first record."""
    values = []
    fault = None
    for line in lines:
        try:
            values.append(json.loads(line))
        except json.JSONDecodeError as exc:
            fault = fault or f"{exc.msg} at character {exc.colno}"
        except (ValueError, RecursionError):
            continue
    if any(isinstance(value, dict) for value in values):
        return f"{uri}: there is no key in the first records; {_ADVICE}."
    if not values:
        return f"{uri}, line {first}: not JSON{f': {fault}' if fault else ''}. {_EXPECTED}"
    if all(isinstance(value, list) for value in values):
        is_one_array = len(values) == 1 and all(isinstance(each, list) for each in values[0])
        return (
            f"{uri}: {'it is an array of arrays' if is_one_array else 'its records are arrays'}, such as {shown(json.dumps(values[0], ensure_ascii=False))}. "
            f"{_EXPECTED} If the {'inner ' * is_one_array}arrays have numbers and text, jq -r '{'.[] | ' * is_one_array}@csv' makes a CSV file of "
            "them, which source.csv reads."
        )
    other = next(value for value in values if not isinstance(value, list))
    return f"{uri}: its records aren't objects, such as {shown(json.dumps(other, ensure_ascii=False))}. {_EXPECTED}"


@dataclass
class _Nested:
    """The nested values that were found, by path."""

    structs: StructRule
    asked: frozenset[str]
    values: dict[Path, list[Any]] = field(default_factory=dict)

    def is_column(self, path: Path) -> bool:
        """Whether the object at a path becomes a column itself."""
        return (self.structs.keeps and len(path) == 1) or self.is_named(path)

    def is_asked(self, path: Path) -> bool:
        """Whether the spec keeps the values at a path as nested values."""
        return "/".join(path) in self.asked

    def is_named(self, path: Path) -> bool:
        """Whether a feature, a label or the source's `nested` names the path."""
        return "/".join(path) in self.structs.named or self.is_asked(path)


def _leaves(path: Path, value: dict[str, Any], nested: _Nested) -> Iterator[tuple[Path, str]]:
    """Yields a path and a kind for each empty object, for each object that is a column, and for each value of any other type."""
    for key, each in value.items():
        inner = (*path, key)
        if isinstance(each, dict) and each:
            if nested.is_column(inner):
                nested.values.setdefault(inner, []).append(each)
                yield inner, "kept object"
            yield from _leaves(inner, each, nested)
        else:
            kind = _kind(each)
            is_nested = kind.startswith(("list of object", "list of list", "list of empty"))
            if isinstance(each, list) and nested.is_asked(inner):
                is_nested = True
            if is_nested or (kind == "list of several types" and all(item is None or isinstance(item, list) for item in each)):
                nested.values.setdefault(inner, []).append(each)
                kind = "nested list"
            yield inner, kind


def _only(seen: Mapping[Path, _PathTypes], nested: _Nested) -> dict[Path, _PathTypes]:
    """The paths that the spec keeps as nested values."""
    return {path: each for path, each in seen.items() if nested.is_asked(path)}


def _check_asked(columns: Sequence[tuple[AnyColumn, Path]], nested: _Nested, uri: str) -> None:
    """Raises BadSpec for a key that the spec keeps as nested values, but that has no nested values in the first records."""
    found = {column.name for column, _ in columns if isinstance(column, NestedColumn)}
    for name in sorted(nested.asked - found):
        raise BadSpec(f"source.jsonl.nested: the key {name!r} is neither an object nor a list in the first records of {uri}.")


def _inferred(seen: Mapping[Path, _PathTypes], nested: _Nested, uri: str) -> list[tuple[AnyColumn, Path]]:
    """The columns of all paths, in the order in which the paths were found. A kept object comes before its fields."""
    columns: list[tuple[AnyColumn, Path]] = []
    objects = {path[:length] for path in seen for length in range(1, len(path))}
    for path, each in seen.items():
        if set(each.kinds) == {"object"} or (set(each.kinds) <= {"object", "null"} and path in objects):
            continue
        is_inside = any(nested.is_column(path[:length]) for length in range(1, len(path)))
        if is_inside and not nested.is_named(path) and (set(each.kinds) == {"null"} or not set(each.kinds) <= _SINGLE):
            continue  # only the object's own column can hold some of these values, such as lists with nulls
        if path in nested.values:
            columns.append((_nested_column(path, each, nested.values[path], uri, by_default=not is_inside), path))
            continue
        column = _column(path, each, uri)
        # Numbers in an object that is a column have 64 bits. So columns for the object's keys have 64 bits, too.
        columns.append((column.model_copy(update={"type": "Float64"}) if is_inside and column.type == "Float32" else column, path))
    return columns


def _nested_column(path: Path, seen: _PathTypes, values: Sequence[Any], uri: str, *, by_default: bool) -> NestedColumn:
    """The column for the nested values at one path. Raises BadSpec for values of several types."""
    name = "/".join(path)
    others = {kind: line for kind, line in seen.kinds.items() if kind not in ("null", "object", "empty list")}
    if len(others) > 1 or ("kept object" in others and "empty list" in seen.kinds) or ("nested list" in others and "object" in seen.kinds):
        raise BadSpec(_several_types(name, seen, uri))
    line = next(iter(others.values()))
    try:
        nested = kind_of(values)
    except SeveralTypes as exc:
        raise BadSpec(f"{uri}, line {line}: {name!r} can't be read: {exc}; {_ADVICE} without it.") from exc
    if nested is None:
        raise BadSpec(f"{uri}, line {line}: {name!r} has only empty objects in the first records; {_ADVICE} without it.")
    return NestedColumn(name, nested, by_default)


def _several_types(name: str, seen: _PathTypes, uri: str) -> str:
    first: dict[str, int] = {}
    for kind, line in seen.kinds.items():
        first.setdefault({_LONG: "Int64", "kept object": "object", "nested list": "list"}.get(kind, kind.replace(_LONG, "Int64")), line)
    types = ", ".join(f"{each} (line {line})" for each, line in first.items() if each != "null")
    return f"{uri}: {name!r} has values of several types: {types}; {_ADVICE}, with or without this key."


def _is_object(column: AnyColumn) -> bool:
    return isinstance(column, NestedColumn) and pa.types.is_struct(column.kind)


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
    """The path of a column in the spec. A key with exactly the column's name takes precedence over a key inside an object."""
    if (name,) in seen:
        return (name,)
    return next((path for path in seen if "/".join(path) == name), tuple(name.split("/")))


def _column(path: Path, seen: _PathTypes, uri: str) -> JsonlColumn:
    """The column for the values at one path. Whole numbers become Int64, other numbers Float32 or Float64, `true` and `false` Bool, and
    text String."""
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
        raise BadSpec(_several_types(name, seen, uri))
    kind = next(iter(kinds))
    single = kind.removeprefix("list of ")
    if single not in ("Int64", "Float32", "Float64", "String", "Bool"):
        raise BadSpec(f"{uri}, line {kinds[kind]}: {name!r} is a {kind}, which records can't contain; {_ADVICE} without it.")
    if not 1 <= len(name) <= 256:
        raise BadSpec(f"{uri}, line {kinds[kind]}: a key has {len(name)} characters; columns have 1 to 256. {_ADVICE.capitalize()}.")
    return JsonlColumn.model_validate({"name": name, "type": single, "list": kind != single})
