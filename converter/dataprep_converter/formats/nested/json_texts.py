"""Converts columns to JSON strings, a complete column at a time. `nested_arrays.py` converts the strings back.

| values | in JSON |
|---|---|
| numbers, booleans, text | numbers (floats as the shortest text of their type), `true`, `false`, strings |
| NaN and infinities | the strings `NaN`, `Infinity`, `-Infinity` |
| bytes | base64 |
| decimals | strings with all digits |
| dates, times, timestamps | strings such as `2026-01-31`, `12:30:00.500`, `2026-01-31T12:30:00`, with `Z` at the end if the type has a time zone |
| durations | the number of the type's units, such as milliseconds |
| structs | objects with all fields, in the order of the type |
| lists | arrays |
| maps | objects if the keys are text, otherwise arrays of pairs [key, value] |
"""

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa

from dataprep_converter.core.arrow_types import is_any_bytes, is_any_text
from dataprep_converter.core.lists import flatten_lists, is_list
from dataprep_converter.core.tensors import Array, binary_data, pc
from dataprep_converter.formats.nested.descriptions import NON_FINITE, has_text_keys, plain_type
from dataprep_converter.formats.text import texts

_FIRST_PLAIN: Final = 0x20
_SHORT: Final = {"\b": "\\b", "\t": "\\t", "\n": "\\n", "\f": "\\f", "\r": "\\r"}
_USUAL_TIME: Final = r"^([0-9]{4}-[0-9]{2}-[0-9]{2}|[0-9]{2}:)"
_types: Any = pa.types  # the stubs know only some of the types that each function accepts


def json_column(column: Array) -> Array:
    """Returns the JSON text of each row, as large_string. A null stays a null."""
    if not column.null_count:
        return json_texts(column)
    texts_or_nulls: Array = pc.if_else(column.is_valid(), json_texts(column), pa.scalar(None, pa.large_string()))
    return texts_or_nulls


def json_texts(column: Array) -> Array:
    """Returns the JSON text of each row, as large_string. A null becomes the text `null`."""
    values: Any = column
    if isinstance(values.type, pa.BaseExtensionType):
        return json_texts(values.storage)
    if isinstance(values.type, pa.DictionaryType):
        return json_texts(values.dictionary_decode())
    valid = values.drop_null() if values.null_count else values
    return texts.with_nulls(values, _texts_of_valid(valid), "null")


def _texts_of_valid(values: Any) -> Array:
    kind = values.type
    if _types.is_null(kind):
        return pa.array([], pa.large_string())
    if _types.is_struct(kind):
        return _objects(values)
    if _types.is_map(kind):
        return _maps(values)
    if is_list(kind):
        lists = flatten_lists(values)
        return array(json_texts(lists.items), _ends(lists.counts))
    if is_any_text(kind):
        return quote(escape(values.cast(pa.large_string())))
    if is_any_bytes(kind):
        return quote(texts.base64(values.cast(pa.large_binary())))
    if _types.is_floating(kind):
        return _floats(values)
    if _types.is_decimal(kind):
        return quote(values.cast(pa.large_string()))
    return _times(values) if _types.is_temporal(kind) else texts.numbers(values)


def _objects(values: Any) -> Array:
    if not len(values):
        return pa.array([], pa.large_string())
    pieces: list[Any] = []
    for number, field in enumerate(values.type):
        key = quote(escape(pa.array([field.name], pa.large_string())))[0].as_py()
        pieces += [texts.text(f"{',' if number else '{'}{key}:"), json_texts(pc.struct_field(values, [number]))]
    return texts.join(*pieces, texts.text("}"))


def _maps(values: Any) -> Array:
    key, value = values.type.key_type, values.type.item_type
    lists = flatten_lists(values.cast(pa.list_(pa.struct([pa.field("key", key, nullable=False), pa.field("value", value)]))))
    keys, items = json_texts(pc.struct_field(lists.items, [0])), json_texts(pc.struct_field(lists.items, [1]))
    if has_text_keys(values.type):
        return array(texts.join(keys, texts.text(":"), items), _ends(lists.counts), brackets="{}")
    pairs = texts.join(texts.text("["), keys, texts.text(","), items, texts.text("]"))
    return array(pairs, _ends(lists.counts))


def _floats(values: Any) -> Array:
    numbers = texts.numbers(values)
    for word, replacement in NON_FINITE:
        numbers = pc.if_else(pc.equal(numbers, texts.text(word)), texts.text(f'"{replacement}"'), numbers)
    return numbers


def _times(values: Any) -> Array:
    """Returns times as strings. A time outside the years 0 to 9999 becomes a number: the time since 1970, in the type's unit."""
    kind: Any = plain_type(values.type)
    plain = values.cast(kind)
    numbers = plain.cast(pa.int32() if kind.bit_width == 32 else pa.int64()).cast(pa.large_string())
    if _types.is_duration(kind):
        return numbers  # type: ignore[no-any-return]  # Arrow's functions are untyped here
    is_zoned = _types.is_timestamp(kind) and kind.tz is not None
    written: Any = (plain.cast(pa.timestamp(kind.unit)) if is_zoned else plain).cast(pa.large_string())
    is_usual = pc.match_substring_regex(written, _USUAL_TIME)
    if _types.is_timestamp(kind):
        written = pc.replace_substring(written, " ", "T")
    suffix = "Z" if is_zoned else ""
    times: Array = pc.if_else(is_usual, texts.join(texts.text('"'), written, texts.text(f'{suffix}"')), numbers)
    return times


def _ends(counts: Any) -> Any:
    return np.concatenate((np.zeros(1, np.int64), np.cumsum(counts)))


# --- the pieces of JSON texts -------------------------------------------------------------------------------------


def array(items: Array, offsets: Any, *, brackets: Sequence[str] = "[]") -> Array:
    """Returns a JSON array for each row. Row n consists of the items from `offsets[n]` up to `offsets[n + 1]`."""
    return texts.join(texts.text(brackets[0]), texts.lists(items, offsets, ","), texts.text(brackets[1]))


def quote(values: Array) -> Array:
    """Returns the values between quotes."""
    return texts.join(texts.text('"'), values, texts.text('"'))


def escape(values: Array) -> Array:
    """Escapes strings for JSON, with the same short escapes as Python's json module."""
    replace: Any = pc.replace_substring
    escaped: Array = replace(replace(values, "\\", "\\\\"), '"', '\\"')
    for code in _control_characters(values):
        escaped = replace(escaped, chr(code), _SHORT.get(chr(code), f"\\u{code:04x}"))
    return escaped


def _control_characters(values: Array) -> list[int]:
    """Returns the codes of the control characters that occur in the strings."""
    if not len(values):
        return []
    data, offsets = binary_data(values.cast(pa.large_binary()))
    used = data[offsets[0] : offsets[-1]]
    codes: list[int] = np.unique(used[used < _FIRST_PLAIN]).tolist()
    return codes
