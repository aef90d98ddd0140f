"""Determines the types of nested values in `jsonl` files: objects that are kept, lists of objects and lists of lists. Only the planner does
this."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from dataprep_converter.core.lists import is_list
from dataprep_converter.formats.nested.descriptions import description, parse_description, plain_type

_INT64: Final = range(-(2**63), 2**63)
_arrow: Any = pa  # the type stubs lack some functions


@dataclass(frozen=True)
class NestedColumn:
    """A column of nested values, which become JSON text."""

    name: str
    kind: pa.DataType
    by_default: bool = True
    default: str | None = None
    """The JSON text of the value that replaces a null."""
    list: bool = False

    @property
    def type(self) -> str:
        """The type, for messages."""
        return str(self.kind)

    def model_copy(self, *, update: Mapping[str, Any]) -> "NestedColumn":
        """Returns a copy with the fields in `update` changed, like `model_copy` of the columns in a spec."""
        return NestedColumn(**{**vars(self), **update})

    def document(self) -> dict[str, Any]:
        """Returns the column as JSON values for the reader's state."""
        return {"name": self.name, "nested": description(self.kind), "byDefault": self.by_default}

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> "NestedColumn":
        """Returns the column from the reader's state."""
        return cls(document["name"], parse_description(document["nested"]), document["byDefault"])


class SeveralTypes(ValueError):
    """Raised for values of several types at one place. The message contains the place and the types."""


def kind_of(values: Iterable[Any]) -> pa.DataType | None:
    """Returns the type that can hold all values of a column.

    Returns None if no type can hold the values in every format, for example because they are all empty objects. Raises SeveralTypes.
    """
    return plain_type(_common_kind(list(values), ()))


def _common_kind(values: Sequence[Any], place: tuple[str, ...]) -> pa.DataType:
    valid = [value for value in values if value is not None]
    kinds = {_single_kind(value) for value in valid}
    if kinds == {"object"}:
        keys = dict.fromkeys(key for value in valid for key in value)
        fields = [(key, _common_kind([value.get(key) for value in valid], (*place, key))) for key in keys]
        kind: pa.DataType = _arrow.struct(fields)
    elif kinds == {"list"}:
        kind = _arrow.list_(_common_kind([item for value in valid for item in value], place))
    elif kinds <= {"Int64", "Float64"}:
        kind = pa.null() if not kinds else pa.int64() if kinds == {"Int64"} else pa.float64()
    elif len(kinds) == 1:
        kind = pa.string() if kinds == {"String"} else pa.bool_()
    else:
        raise SeveralTypes(f"{'/'.join(place) or 'it'} has values of several types: {', '.join(sorted(kinds))}")
    return kind


def _single_kind(value: Any) -> str:
    if isinstance(value, bool):
        return "Bool"
    if isinstance(value, int):
        return "Int64" if value in _INT64 else "Float64"
    if isinstance(value, float):
        return "Float64"
    if isinstance(value, str):
        return "String"
    return "object" if isinstance(value, dict) else "list"


def unknown_key(value: Any, kind: Any) -> str | None:
    """Returns the path of the first key in `value` that its type `kind` doesn't have, or None."""
    if isinstance(value, dict) and pa.types.is_struct(kind):
        types = {field.name: field.type for field in kind}
        for key, each in value.items():
            if key not in types:
                return str(key)
            if (inner := unknown_key(each, types[key])) is not None:
                return f"{key}/{inner}"
    elif isinstance(value, list) and is_list(kind):
        return next((key for item in value if (key := unknown_key(item, kind.value_type)) is not None), None)
    return None
