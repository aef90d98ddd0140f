"""Converts nested values back to columns, from the JSON strings that `json_texts.py` makes."""

import base64
import itertools
import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyarrow import json as arrow_json

from dataprep_converter.core.lists import is_list
from dataprep_converter.core.tensors import Array, pc, to_arrow
from dataprep_converter.formats.nested.descriptions import NON_FINITE, has_text_keys

_WORDS: Final[Mapping[Any, float]] = {word: float(word) for _, word in NON_FINITE}
_AT_ONCE: Final = 8 << 20
"""The approximate number of bytes of JSON that are parsed together."""
_types: Any = pa.types  # the stubs know only some of the types that each function accepts
_arrow: Any = pa
_arrow_json: Any = arrow_json


def nested_array(texts: Array, kind: pa.DataType) -> Array:
    """Converts JSON texts to a column of type `kind`, a type that `plain_type` returned. A null stays a null.

    Raises ValueError for a text that isn't JSON, or whose value isn't of this type.
    """
    # The number of rows per part depends only on the texts, so equal texts give equal buffers.
    size = max(1, _AT_ONCE * len(texts) // max(1, pc.sum(pc.binary_length(texts)).as_py() or 0))
    parts = [_parse(texts.slice(first, size), kind) for first in range(0, max(1, len(texts)), size)]
    return parts[0] if len(parts) == 1 else pa.concat_arrays(parts)


def _parse(texts: Array, kind: pa.DataType) -> Array:
    column = _parse_with_arrow(texts, kind)
    if column is None:
        column = array_of([None if text is None else json.loads(text) for text in texts.to_pylist()], kind)
    return column


def _parse_with_arrow(texts: Array, kind: pa.DataType) -> "Array | None":
    """Parses the texts with Arrow's fast JSON reader. Returns None for values that this reader can't parse, such as NaN or bytes."""
    if not len(texts) or not _is_known_to_arrow(kind):
        return None
    lines = b"".join(b'{"v":%b}\n' % (b"null" if text is None else text) for text in texts.cast(pa.large_binary()).to_pylist())
    try:
        table = _arrow_json.read_json(
            pa.BufferReader(lines),
            read_options=_arrow_json.ReadOptions(use_threads=False, block_size=max(len(lines) + 1, 1 << 16)),
            parse_options=_arrow_json.ParseOptions(explicit_schema=pa.schema([("v", kind)]), unexpected_field_behavior="error"),
        )
    except pa.ArrowException:
        return None
    column: Any = table.column("v").combine_chunks()
    column = column.chunk(0) if isinstance(column, pa.ChunkedArray) else column
    return column if len(column) == len(texts) and column.type == kind else None


def _is_known_to_arrow(kind: Any) -> bool:
    if _types.is_struct(kind):
        return all(_is_known_to_arrow(field.type) for field in kind)
    if _types.is_list(kind):
        return _is_known_to_arrow(kind.value_type)
    return bool(_types.is_integer(kind) or _types.is_boolean(kind) or kind in (pa.float32(), pa.float64(), pa.string(), pa.null()))


def repeated_keys(texts: Array) -> dict[int, str]:
    """Returns a dict that maps each row whose JSON has a repeated key to a message with the key's name.

    A reader of such a row would lose one of the key's values. Rows that aren't UTF-8 are skipped.
    """
    reasons = {}
    for row, text in enumerate(texts.cast(pa.large_binary()).to_pylist()):
        try:
            json.loads(text or "null", object_pairs_hook=_check_keys)
        except _RepeatedKey as exc:
            reasons[row] = f"the key {exc.args[0]!r} twice"
        except UnicodeDecodeError:
            continue
    return reasons


class _RepeatedKey(Exception):
    """Raised for an object that has the same key twice."""


def _check_keys(pairs: Sequence[tuple[str, Any]]) -> None:
    seen = set()
    for key, _ in pairs:
        if key in seen:
            raise _RepeatedKey(key)
        seen.add(key)


def array_of(values: Sequence[Any], kind: Any) -> Array:
    """Converts JSON values to a column of type `kind`. Raises ValueError for a value that isn't of this type."""
    try:
        if _types.is_struct(kind):
            return _structs(values, kind)
        if _types.is_map(kind):
            return _maps(values, kind)
        if is_list(kind):
            return _lists(values, kind)
        return _single_values(values, kind)
    except (pa.ArrowException, TypeError, OverflowError) as exc:
        raise ValueError(f"a value is not {kind}: {exc}") from exc


def _structs(values: Sequence[Any], kind: Any) -> Array:
    _check(values, (dict,), kind)
    names = {field.name for field in kind}
    unknown = next((key for value in values for key in value or {} if key not in names), None)
    if unknown is not None:
        raise ValueError(f"there is a field {unknown!r}, which {kind} doesn't have")
    children = [array_of([None if value is None else value.get(field.name) for value in values], field.type) for field in kind]
    structs: Array = _arrow.StructArray.from_arrays(children, fields=list(kind), mask=_missing(values))
    return structs


def _lists(values: Sequence[Any], kind: Any) -> Array:
    _check(values, (list,), kind)
    lists: Array
    if _types.is_fixed_size_list(kind):
        size = kind.list_size
        other = next((len(value) for value in values if value is not None and len(value) != size), None)
        if other is not None:
            raise ValueError(f"a list has the length {other}, but {kind} requires the length {size}")
        items = array_of([item for value in values for item in (value if value is not None else [None] * size)], kind.value_type)
        lists = _arrow.FixedSizeListArray.from_arrays(items, type=kind, mask=_missing(values))
    else:
        items = array_of(list(itertools.chain.from_iterable(value or [] for value in values)), kind.value_type)
        lists = _arrow.ListArray.from_arrays(to_arrow(_offsets(values)), items, type=kind, mask=_missing(values))
    return lists


def _maps(values: Sequence[Any], kind: Any) -> Array:
    if has_text_keys(kind):
        _check(values, (dict,), kind)
        pairs = [None if value is None else list(value.items()) for value in values]
    else:
        _check(values, (list,), kind)
        pairs = list(values)
    flat = list(itertools.chain.from_iterable(pair or [] for pair in pairs))
    keys, items = array_of([key for key, _ in flat], kind.key_type), array_of([item for _, item in flat], kind.item_type)
    entries = _arrow.StructArray.from_arrays([keys, items], fields=[kind.key_field, kind.item_field])
    missing = _missing(values)
    validity = None if missing is None else _arrow.py_buffer(np.packbits(~np.asarray(missing), bitorder="little"))
    maps: Array = _arrow.Array.from_buffers(kind, len(values), [validity, _arrow.py_buffer(_offsets(pairs))], children=[entries])
    return maps


def _single_values(values: Sequence[Any], kind: Any) -> Array:
    column: Array
    if _types.is_binary(kind):
        _check(values, (str,), kind)
        column = _arrow.array([None if value is None else base64.b64decode(value, validate=True) for value in values], kind)
    elif _types.is_floating(kind):
        numbers = [_WORDS.get(value, value) if isinstance(value, str) else value for value in values]
        _check(numbers, (int, float), kind)
        floats = np.array([0.0 if number is None else number for number in numbers], np.float64)
        with np.errstate(over="ignore"):
            column = _arrow.array(floats.astype(kind.to_pandas_dtype()), mask=np.array([value is None for value in values], np.bool_))
    elif _types.is_decimal(kind):
        _check(values, (str,), kind)
        column = _arrow.array(values, pa.string()).cast(kind)
    elif _types.is_temporal(kind):
        column = _times(values, kind)
    else:
        _check(values, _python_types(kind), kind)
        column = _arrow.array(values, kind)
    return column


def _times(values: Sequence[Any], kind: Any) -> Array:
    _check(values, (int,) if _types.is_duration(kind) else (str, int), kind)
    number = pa.int32() if kind.bit_width == 32 else pa.int64()
    numbers = _arrow.array([value if isinstance(value, int) else None for value in values], number)
    written = _arrow.array([value.removesuffix("Z") if isinstance(value, str) else None for value in values], pa.string())
    if _types.is_time(kind):
        moments = pc.binary_join_element_wise("1970-01-01", written, "T").cast(pa.timestamp(kind.unit))
        from_texts = moments.cast(pa.int64()).cast(number)
    elif _types.is_timestamp(kind):
        from_texts = written.cast(pa.timestamp(kind.unit)).cast(number)
    else:
        from_texts = written.cast(kind).cast(number) if written.null_count < len(written) else pa.nulls(len(written), number)
    times: Array = pc.coalesce(from_texts, numbers).cast(kind)
    return times


def _check(values: Sequence[Any], types: tuple[type, ...], kind: Any) -> None:
    """Raises ValueError if a value is neither None nor of one of these types. A bool isn't an int here."""
    wrong = set(map(type, values)) - {*types, type(None)}
    if wrong:
        raise ValueError(f"expected {kind}, got {min(each.__name__ for each in wrong)}")


def _python_types(kind: Any) -> tuple[type, ...]:
    if _types.is_null(kind):
        return ()
    return (bool,) if _types.is_boolean(kind) else (int,) if _types.is_integer(kind) else (str,)


def _missing(values: Sequence[Any]) -> Any:
    """Returns the null mask, or None if there are no nulls."""
    return pa.array([value is None for value in values]) if None in values else None


def _offsets(values: Sequence[Any]) -> npt.NDArray[np.int32]:
    lengths = [len(value) if value is not None else 0 for value in values]
    return np.concatenate((np.zeros(1, np.int64), np.cumsum(lengths, dtype=np.int64))).astype(np.int32)
