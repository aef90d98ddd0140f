"""Turns Avro schemas into Arrow schemas, and the records of Avro blocks into Arrow batches. fastavro decodes the records.

fastavro is given a schema in which strings are bytes and times are numbers. As a result, text that is not UTF-8 makes only its own record
bad, and times that Python's `datetime` can't hold keep their values. Arrow then reinterprets the buffers as strings and times.
"""

import io
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from dataprep_converter.core.errors import BadData, BadSpec

_PART_RECORDS: Final = 8192
"""The maximum number of records that exist as Python objects at the same time."""
_SYNC: Final = bytes(16)

_arrow: Any = pa  # the type stubs lack some types
_PRIMITIVES: Final[Mapping[str, pa.DataType]] = {
    "null": pa.null(),
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "bytes": pa.binary(),
    "string": pa.string(),
}
_TIMES: Final[Mapping[tuple[str, str], pa.DataType]] = {
    ("int", "date"): pa.date32(),
    ("int", "time-millis"): pa.time32("ms"),
    ("long", "time-micros"): pa.time64("us"),
    ("long", "timestamp-millis"): pa.timestamp("ms", "UTC"),
    ("long", "timestamp-micros"): pa.timestamp("us", "UTC"),
    ("long", "timestamp-nanos"): pa.timestamp("ns", "UTC"),
    ("long", "local-timestamp-millis"): pa.timestamp("ms"),
    ("long", "local-timestamp-micros"): pa.timestamp("us"),
    ("long", "local-timestamp-nanos"): pa.timestamp("ns"),
}
_EXACT: Final = 2**53
_NUMBERS: Final = tuple(_PRIMITIVES[name] for name in ("int", "long", "float", "double"))


@dataclass(frozen=True)
class RecordType:
    """The schema of a file's records."""

    schema: pa.Schema
    """The fields as Arrow types. A type that Arrow lacks is represented by a union, which a column can't contain."""
    decoded: pa.Schema
    """The same fields with bytes instead of strings, and numbers instead of times."""
    head: bytes
    """The header of an uncompressed file with these records."""


@dataclass(frozen=True)
class Inexact:
    """An Avro long that its column can't represent. The field is a union of long and double, so the column contains doubles."""

    row: int
    path: tuple[str, ...]
    """The name of the field, preceded by the names of the records that contain it, the outermost first."""
    number: int

    def reason(self) -> str:
        """Why the row is bad."""
        return (
            f"column {'/'.join(self.path)!r} has the long {self.number} in a union with double or float, which is read as double; "
            f"expected a long that a double holds exactly, as all up to {_EXACT:,}"
        )


def record_type(schema: bytes, uri: str) -> RecordType:
    """Parses the schema of a file. Raises BadData, with the file's URI, for an invalid schema, and for records that have no fields."""
    fastavro = _fastavro()
    try:
        parsed = fastavro.parse_schema(json.loads(schema))
        if not isinstance(parsed, dict) or parsed["type"] not in ("record", "error") or not parsed["fields"]:
            kind = parsed["type"] if isinstance(parsed, dict) else parsed
            raise BadData(f"{uri}: its schema is a {kind}, expected a record with fields.", uri=uri)
        types = _Types(parsed["__named_schemas"])
        fields = [(field["name"], types.of(field["type"])) for field in parsed["fields"]]
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError, fastavro.schema.SchemaParseException) as exc:
        raise BadData(f"{uri}: its Avro schema is invalid: {type(exc).__name__} {exc}", uri=uri) from exc
    decoded = pa.schema([(name, _decoded(kind)) for name, kind in fields])
    plain = json.dumps(_as_decoded(json.loads(schema))).encode()
    head = io.BytesIO()
    for part in (b"avro.schema", plain, b"avro.codec", b"null"):
        head.write(_long(len(part)) + part)
    return RecordType(pa.schema(fields), decoded, b"Obj\x01" + _long(2) + head.getvalue() + _long(0) + _SYNC)


def batches_of(kind: RecordType, records: int, content: bytes, columns: Sequence[str]) -> Iterator[tuple[pa.RecordBatch, list[Inexact]]]:
    """Decodes a block of `records` records. Yields batches with only the fields in `columns`, each with a list of the longs that its
    columns can't represent. In the batch, these longs are null. If `columns` is empty, batches have a single unnamed column. Raises
    ValueError for damaged records."""
    reader = _fastavro().reader(io.BytesIO(b"".join((kind.head, _long(records), _long(len(content)), content, _SYNC))))
    schema = pa.schema([kind.schema.field(name) for name in columns])
    rest = records
    while rest:
        part: list[dict[str, Any]] = []
        inexact: list[Inexact] = []
        try:
            for _ in range(min(rest, _PART_RECORDS)):
                part.append(next(reader))  # noqa: PERF401 - an error must not be lost in a comprehension
            arrays = [_column([each[name] for each in part], kind.decoded.field(name).type, name, inexact) for name in columns]
        except (ValueError, EOFError, StopIteration, IndexError, KeyError, OverflowError, MemoryError, TypeError, pa.ArrowException) as exc:
            raise ValueError(f"{type(exc).__name__} {exc}".rstrip()) from exc
        rest -= len(part)
        if not columns:
            yield _arrow.RecordBatch.from_arrays([pa.nulls(len(part))], names=[""]), []
            continue
        yield (
            _arrow.RecordBatch.from_arrays(
                [array if array.type == field.type else array.view(field.type) for array, field in zip(arrays, schema, strict=True)],
                schema=schema,
            ),
            inexact,
        )


def _column(values: Sequence[Any], kind: Any, name: str, inexact: list[Inexact]) -> Any:
    """The decoded values of a field as an array. Adds the longs that the array can't hold to `inexact`."""
    try:
        return _arrow.array(values, kind)
    except pa.ArrowInvalid:
        # Arrow doesn't convert whole numbers beyond 2^53 to doubles, even if a double can represent them exactly.
        return _arrow.array([_as_doubles(value, kind, row, (name,), inexact) for row, value in enumerate(values)], kind)


def _as_doubles(value: Any, kind: Any, row: int, path: tuple[str, ...], inexact: list[Inexact]) -> Any:
    """The value, with longs converted to doubles where `kind` has doubles. A long that no double can represent exactly becomes None and is
    added to `inexact`."""
    types: Any = pa.types
    if value is None:
        return None
    if types.is_float64(kind) and isinstance(value, int):
        if int(float(value)) == value:
            return float(value)
        inexact.append(Inexact(row, path, value))
        return None
    if types.is_struct(kind):
        return {field.name: _as_doubles(value[field.name], field.type, row, (*path, field.name), inexact) for field in kind}
    if types.is_list(kind):
        return [_as_doubles(item, kind.value_type, row, path, inexact) for item in value]
    if types.is_map(kind):
        return {key: _as_doubles(item, kind.item_type, row, path, inexact) for key, item in value.items()}
    return value


def _fastavro() -> Any:
    """The module `fastavro`. Raises BadSpec if fastavro isn't installed."""
    try:
        # Not imported at the top, because most jobs don't read Avro files.
        import fastavro
    except ModuleNotFoundError as exc:
        raise BadSpec("source.avro needs fastavro: pip install 'dataprep-operator[avro]'.") from exc
    return fastavro


class _Types:
    """Converts Avro types to Arrow types. `named` contains the records, enums and fixed types, keyed by full name."""

    def __init__(self, named: Mapping[str, Any]) -> None:
        self._named = named
        self._inside: list[str] = []

    def of(self, kind: Any) -> pa.DataType:
        """The Arrow type. A union of several types becomes an Arrow union, unless all types are numbers. A record that contains itself
        becomes an Arrow union too."""
        if isinstance(kind, list):
            return self._of_union(kind)
        if isinstance(kind, str):
            return _PRIMITIVES[kind] if kind in _PRIMITIVES else self.of(self._named[kind])
        name, logical = kind["type"], kind.get("logicalType")
        if name in ("record", "error"):
            return self._of_record(kind)
        if logical == "decimal" and name in ("bytes", "fixed") and 0 <= kind.get("scale", 0) <= kind["precision"] <= 76:
            decimal: pa.DataType = (_arrow.decimal128 if kind["precision"] <= 38 else _arrow.decimal256)(
                kind["precision"], kind.get("scale", 0)
            )
            return decimal
        if name == "array":
            return pa.list_(self.of(kind["items"]))
        if name == "map":
            values: pa.DataType = _arrow.map_(pa.string(), self.of(kind["values"]))
            return values
        if name == "enum":
            return pa.string()
        if name == "fixed":
            fixed: pa.DataType = pa.binary(kind["size"])
            return fixed
        return _TIMES[name, logical] if (name, logical) in _TIMES else self.of(name)

    def _of_record(self, kind: Mapping[str, Any]) -> pa.DataType:
        if kind["name"] in self._inside:
            return _union([pa.struct([])])
        self._inside.append(kind["name"])
        fields = [(field["name"], self.of(field["type"])) for field in kind["fields"]]
        self._inside.pop()
        return next((each for _, each in fields if pa.types.is_union(each)), None) or pa.struct(fields)

    def _of_union(self, kinds: Sequence[Any]) -> pa.DataType:
        others = [kind for kind in kinds if kind != "null"]
        if not others:
            return pa.null()
        types = list(dict.fromkeys(self.of(kind) for kind in others))
        if len(types) == 1:
            return types[0]
        if all(kind in _NUMBERS for kind in types):
            # Avro itself promotes numbers in the same way.
            return pa.float64() if any(map(pa.types.is_floating, types)) else pa.int64()
        return _union(types)


def _union(types: Sequence[pa.DataType]) -> pa.DataType:
    union: pa.DataType = _arrow.dense_union([pa.field(str(kind), kind) for kind in types])
    return union


def _decoded(kind: Any) -> Any:
    """The type of fastavro's values, before Arrow reinterprets them as `kind`."""
    types: Any = pa.types
    if types.is_string(kind):
        return pa.binary()
    if types.is_date32(kind) or types.is_time32(kind):
        return pa.int32()
    if types.is_time64(kind) or types.is_timestamp(kind):
        return pa.int64()
    if types.is_struct(kind):
        return pa.struct([(field.name, _decoded(field.type)) for field in kind])
    if types.is_list(kind):
        return pa.list_(_decoded(kind.value_type))
    if types.is_map(kind):
        return _arrow.map_(pa.binary(), _decoded(kind.item_type))
    return kind


def _as_decoded(schema: Any) -> Any:
    """The Avro schema with bytes instead of strings, and without logical types other than decimals."""
    if isinstance(schema, list):
        return [_as_decoded(kind) for kind in schema]
    if isinstance(schema, str):
        return "bytes" if schema == "string" else schema
    if not isinstance(schema, dict):
        return schema
    out = {key: value for key, value in schema.items() if key not in ("logicalType", "default", "doc", "aliases")}
    if schema.get("logicalType") == "decimal":
        out["logicalType"] = "decimal"
    for key in ("type", "items", "values"):
        if key in out:
            out[key] = _as_decoded(out[key])
    if "fields" in out:
        out["fields"] = [_as_decoded(field) for field in out["fields"]]
    return out


def _long(number: int) -> bytes:
    """Avro's encoding of a non-negative number."""
    value = number << 1
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)
