"""Families of Arrow types: within a family, a value means the same in every type."""

from typing import Any

import pyarrow as pa

from dataprep_converter.core.arrow_types import is_any_bytes, is_any_text
from dataprep_converter.core.lists import is_list

_types: Any = pa.types  # the stubs know only some of the types that each function accepts


def may_become(there: Any, kind: Any) -> bool:
    """Returns whether values of the type `there` keep their meaning when they are converted to the type `kind`.

    Arrow's conversions aren't a good guide: for example, Arrow also parses strings as numbers.
    """
    if _types.is_null(there):
        return True
    if is_list(there) and is_list(kind):
        return may_become(there.value_type, kind.value_type)
    if _types.is_struct(there) and _types.is_struct(kind):
        known = {field.name: field.type for field in kind}
        return all(field.name in known and may_become(field.type, known[field.name]) for field in there)
    return family(there) == family(kind) != ""


def family(kind: Any) -> str:
    """Returns the name of a family of types that can be converted to each other, or "" if there is none."""
    if is_any_text(kind):
        return "text"
    if is_any_bytes(kind):
        return "bytes"
    if _types.is_boolean(kind) or _types.is_integer(kind) or _types.is_floating(kind) or _types.is_decimal(kind):
        return "numbers"
    if _types.is_timestamp(kind):
        return "instants" if kind.tz is not None else "times"
    return "dates" if _types.is_date(kind) else ""
