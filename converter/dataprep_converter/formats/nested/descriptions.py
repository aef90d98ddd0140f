"""The types of nested values, and the JSON values that describe these types in the plan and the manifest.

    {"list": {"struct": [["role", "string"], ["tokens", "int64"]]}}
    {"map": ["string", {"list": "float32", "size": 4}]}

A struct is described by a list of pairs instead of an object. The manifest sorts the keys of objects, so an object would lose the order of
the fields.
"""

import json
import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

import pyarrow as pa

from dataprep_converter.core.arrow_types import is_any_bytes, is_any_text
from dataprep_converter.core.lists import is_list
from dataprep_converter.core.tensors import NUMPY_NAMES
from dataprep_converter.records.batch import NESTED

NON_FINITE: Final = (("nan", "NaN"), ("inf", "Infinity"), ("-inf", "-Infinity"))
"""Arrow's text and the JSON word for each non-finite value."""

_NAMES: Final[Mapping[pa.DataType, str]] = {pa.float16(): "float16", pa.float32(): "float32", pa.float64(): "float64"}
"""numpy's names for the types that have different names in Arrow."""
_DECIMAL: Final = re.compile(r"decimal(32|64|128|256)\((\d+), (-?\d+)\)")
_ZONED: Final = re.compile(r"timestamp\[(s|ms|us|ns), tz=(.+)\]")
_SMALL_DECIMAL: Final = 38

_types: Any = pa.types  # the stubs know only some of the types that each function accepts
_arrow: Any = pa


def plain_type(kind: pa.DataType) -> pa.DataType | None:
    """Returns the type in which nested values of the input type `kind` are written, or None if JSON can't represent the values.

    Dictionaries, views and large types become plain types, and times get a unit that Parquet keeps.
    """
    inner: Any = kind
    if isinstance(kind, pa.BaseExtensionType):
        return plain_type(kind.storage_type)
    if _types.is_dictionary(kind):
        return plain_type(inner.value_type)
    if _types.is_struct(kind):
        fields = [(field.name, plain_type(field.type)) for field in inner]
        is_plain = fields and len({name for name, _ in fields}) == len(fields) and all(type_ is not None for _, type_ in fields)
        return _arrow.struct(fields) if is_plain else None
    if _types.is_map(kind):
        key, value = plain_type(inner.key_type), plain_type(inner.item_type)
        return None if key is None or value is None else _arrow.map_(key, value)
    if is_list(kind):
        value = plain_type(inner.value_type)
        size = inner.list_size if _types.is_fixed_size_list(kind) else -1
        return None if value is None or size == 0 else _arrow.list_(value, size)
    return _plain_value_type(kind)


def _plain_value_type(kind: Any) -> pa.DataType | None:
    plain: pa.DataType | None = kind
    if kind in NUMPY_NAMES or _types.is_null(kind) or kind == pa.uint64():
        return plain
    if is_any_text(kind):
        return pa.string()
    if is_any_bytes(kind):
        return pa.binary()
    if _types.is_decimal(kind):
        return pa.decimal128(kind.precision, kind.scale) if kind.precision <= _SMALL_DECIMAL else pa.decimal256(kind.precision, kind.scale)
    if _types.is_date(kind):
        return pa.date32()
    if _types.is_timestamp(kind):
        return pa.timestamp("ms" if kind.unit == "s" else kind.unit, tz=kind.tz)
    if _types.is_time(kind):
        return pa.time32("ms") if kind.unit == "s" else plain
    return plain if _types.is_duration(kind) else None


def has_text_keys(kind: Any) -> bool:
    """Returns whether the map type `kind` has text keys, so that its maps become JSON objects."""
    return plain_type(kind.key_type) == pa.string()


def empty_json(kind: Any) -> str:
    """Returns the JSON of an empty value of type `kind`."""
    is_object = _types.is_struct(kind) or (_types.is_map(kind) and has_text_keys(kind))
    return "{}" if is_object else "[]"


def has_maps(kind: Any) -> bool:
    """Returns whether values of type `kind` contain maps."""
    if _types.is_struct(kind):
        return any(has_maps(field.type) for field in kind)
    return bool(_types.is_map(kind)) or (is_list(kind) and has_maps(kind.value_type))


def description(kind: pa.DataType) -> Any:
    """Returns the description of a type that `plain_type` returned, or of any time or decimal type."""
    inner: Any = kind
    if _types.is_struct(kind):
        return {"struct": [[field.name, description(field.type)] for field in inner]}
    if _types.is_map(kind):
        return {"map": [description(inner.key_type), description(inner.item_type)]}
    if is_list(kind):
        size = {"size": inner.list_size} if _types.is_fixed_size_list(kind) else {}
        return {"list": description(inner.value_type)} | size
    return _NAMES.get(kind, str(kind))


def parse_description(described: Any) -> pa.DataType:
    """Returns the type with this description."""
    if isinstance(described, str):
        return _parse_name(described)
    kind: pa.DataType
    if "struct" in described:
        kind = _arrow.struct([(name, parse_description(inner)) for name, inner in described["struct"]])
    elif "map" in described:
        kind = _arrow.map_(*map(parse_description, described["map"]))
    else:
        kind = _arrow.list_(parse_description(described["list"]), described.get("size", -1))
    return kind


def _parse_name(name: str) -> pa.DataType:
    kind: pa.DataType
    if decimal := _DECIMAL.fullmatch(name):
        kind = getattr(_arrow, f"decimal{decimal[1]}")(int(decimal[2]), int(decimal[3]))
    elif zoned := _ZONED.fullmatch(name):
        kind = _arrow.timestamp(zoned[1], tz=zoned[2])
    else:
        kind = _arrow.type_for_alias(name)
    return kind


def nested_field(name: str, kind: pa.DataType, metadata: Mapping[str, str] = MappingProxyType({})) -> "pa.Field[Any]":
    """Returns the field of a column that holds values of type `kind` as JSON strings."""
    field: pa.Field[Any] = _arrow.field(name, pa.large_string(), metadata={**metadata, NESTED: json.dumps(description(kind))})
    return field


def nested_type(field: "pa.Field[Any]") -> pa.DataType | None:
    """Returns the type of the nested values that the column holds as JSON.

    Returns None if the column holds anything else, such as a step's result.
    """
    described = (field.metadata or {}).get(NESTED.encode())
    return None if described is None or field.type != pa.large_string() else parse_description(json.loads(described))
