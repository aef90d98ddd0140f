"""Databases behind `source.sql`, through ADBC: rows come as Arrow batches. Statements may only read. Drivers' errors are translated here.

What differs between databases is a class each: how to connect, and what the columns of a query are.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final
from urllib.parse import quote, urlsplit, urlunsplit

import numpy as np
import pyarrow as pa

from dataprep_api.spec.sources.sql import SQLITE
from dataprep_converter.core.closeable import Closeable
from dataprep_converter.core.errors import BadCredentials, BadData, BadSpec, ConvertError, NotFound, NotPermitted, StoreFull, Unreachable
from dataprep_converter.core.tensors import Array, pc
from dataprep_converter.inputs.access import Access
from dataprep_converter.readers.base.blocks import lost_name
from dataprep_converter.records.lossy import lost_digits

# ruff: noqa: S608 - the query is the user's own, on a connection that can't write; names are quoted.

if TYPE_CHECKING:
    from adbc_driver_manager.dbapi import Connection

_CONNECT_SECONDS: Final = 15
_SERVERS_TYPE: Final = b"POSTGRESQL:type"
_UNNAMED: Final = "unnamed<oid:"
"""How the driver begins the name of a type that it doesn't know."""
_READ: Final = frozenset(
    [
        "bool",
        "int2",
        "int4",
        "int8",
        "float4",
        "float8",
        "numeric",
        "bytea",
        "json",
        "jsonb",
        "uuid",
        "date",
        "time",
        "timestamp",
        "timestamptz",
    ]
)
"""PostgreSQL's types of which the driver gives the very values, beside text and arrays and structs of these."""
_INSTEAD: Final[Mapping[str, str]] = {"money": "numeric", "oid": "bigint"}
_FIRST_DAY: Final = -2_440_588
"""PostgreSQL's first date, 4714-11-24 BC, in days since 1970."""
_EPOCH_DAYS: Final = 10_957
"""From 1970 to 2000, where PostgreSQL's times begin."""
_DAY_MICROSECONDS: Final = 86_400_000_000
_REASON: Final = "\0reason"
"""A name that no column has."""
_BITS: Final = 62
"""Of a whole number of SQLite, less its sign."""
_SQLITE_ROWS: Final = 65_536
"""Rows of a batch; from the first one the driver tells the columns' types."""


class Database(Closeable):
    """One connection. `batches` may be used for one statement at a time."""

    true: ClassVar[str]

    def __init__(self, connection: "Connection", uri: str) -> None:
        self._connection = connection
        self.uri = uri
        """Free of secrets, for messages."""

    def close(self) -> None:
        """Ends the connection."""
        self._connection.close()

    def columns(self, query: str) -> pa.Schema:
        """The columns of a query's result and the types in which `batches` gives them. Raises BadSpec naming one that has none."""
        raise NotImplementedError

    def selected(self, schema: pa.Schema) -> str:
        """What to select for these columns."""
        return ", ".join(quoted(name) for name in schema.names)

    def unfit(self, rows: pa.RecordBatch) -> dict[int, str]:
        """Rows of `batches` with a value that its column can't say, with the reason."""
        reasons = rows.column(rows.num_columns - 1)
        return {row: reasons[row].as_py() for row in np.flatnonzero(reasons.is_valid().to_numpy(zero_copy_only=False)).tolist()}

    def row(self, statement: str) -> tuple[Any, ...]:
        """The only row of a result."""
        with _translated(self.uri), self._connection.cursor() as cursor:
            cursor.execute(statement)
            return tuple(cursor.fetchone() or ())

    def batches(self, statement: str, schema: pa.Schema, *, lost_of: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """The rows, streaming, in batches of any size. Behind them stands, of some columns, the text of numerics that have more digits than was read;
        and behind these, what `unfit` says of a row.
        """
        whole = pa.schema([*schema, *((lost_name(name), pa.string()) for name in lost_of), (_REASON, pa.string())])
        places = [schema.get_field_index(name) for name in lost_of]
        with _translated(self.uri), self._connection.cursor() as cursor:
            self._prepare(cursor)
            cursor.execute(statement)
            for batch in cursor.fetch_record_batch():
                wrong: dict[int, str] = {}
                values = self._values(batch, schema)
                columns = [_as(column, field, self.uri, wrong) for column, field in zip(values, schema, strict=True)]
                columns += [_lost(values[place], columns[place]) for place in places]
                reasons = pa.array([wrong.get(row) for row in range(len(batch))] if wrong else pa.nulls(len(batch)), pa.string())
                yield pa.RecordBatch.from_arrays([*columns, reasons], schema=whole)

    def _values(self, batch: pa.RecordBatch, schema: pa.Schema) -> Sequence[Any]:  # noqa: ARG002 - for databases that select more
        """The columns of the schema in what was selected for them."""
        return batch.columns

    def _prepare(self, cursor: Any) -> None:
        """Settings of a statement."""


class Postgres(Database):
    """PostgreSQL and what speaks its protocol."""

    @classmethod
    def connect(cls, url: str, credentials: Mapping[str, str]) -> "Postgres":
        """User and password may come from a Secret, or by libpq's own variables (PGUSER, PGPASSWORD, PGPASSFILE)."""
        try:
            from adbc_driver_postgresql import dbapi  # type: ignore[import-untyped]  # the package has no types
        except ModuleNotFoundError as exc:
            raise BadSpec(_MISSING) from exc
        with _translated(url):
            try:
                connection = dbapi.connect(_with_credentials(url, credentials))
            except dbapi.Error as exc:
                raise _not_connected(url, str(exc)) from exc
            with connection.cursor() as cursor:
                # One snapshot for all that this connection reads.
                cursor.execute("SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
            connection.commit()
        return cls(connection, url)

    def columns(self, query: str) -> pa.Schema:
        """As the server says."""
        with _translated(self.uri), self._connection.cursor() as cursor:
            cursor.execute(f"SELECT * FROM ({query}) AS q LIMIT 0")
            found = cursor.fetch_record_batch().schema
        for field in found:
            if unread := _unread(field, field.name):
                name, kind, brackets = unread
                if kind.startswith(_UNNAMED):
                    (kind,) = self.row(f"SELECT {int(kind.removeprefix(_UNNAMED).rstrip('>'))}::regtype::text")
                other = f"{_INSTEAD[kind]}{brackets} or to " if kind in _INSTEAD else ""
                raise BadSpec(
                    f"{self.uri}: the column {name!r} is {kind}{brackets}, which can't be read. CAST it to {other}text in source.sql.query."
                )
        return pa.schema([pa.field(field.name, pa.float64() if _is_numeric(field.type) else _stored(field.type)) for field in found])

    def unfit(self, rows: pa.RecordBatch) -> dict[int, str]:
        """Those with an infinite date or time, or one that 64 bits don't hold: the driver's sum has then wrapped to before the first day."""
        wrong = super().unfit(rows)
        for field, values in zip(rows.schema, rows.columns, strict=True):
            for path, inner, places in _dates_and_times((field.name,), values, np.arange(len(values), dtype=np.int64)):
                is_date = pa.types.is_date(inner.type)
                whole: Any = inner.cast(pa.int32() if is_date else pa.int64())
                first = _FIRST_DAY if is_date else _FIRST_DAY * _DAY_MICROSECONDS
                early = pc.fill_null(pc.less(whole, pa.scalar(first, whole.type)), False).to_numpy(zero_copy_only=False)
                for place in np.flatnonzero(early).tolist():
                    said = _said_of_wrapped(whole[place].as_py(), is_date=is_date)
                    wrong.setdefault(int(places[place]), f"column {'/'.join(path)!r} {said}")
        return wrong


class Sqlite(Database):
    """A file of SQLite. Values have types there, columns don't: a column's type is that of its values."""

    _TYPES: ClassVar[Mapping[str, pa.DataType]] = {"integer": pa.int64(), "real": pa.float64(), "text": pa.string(), "blob": pa.binary()}
    _WITHOUT_NULL: ClassVar[Mapping[pa.DataType, str]] = {
        pa.float64(): "coalesce(CAST({} AS REAL), 0.0)",
        pa.string(): "coalesce({}, '')",
        pa.binary(): "coalesce({}, x'')",
    }

    @classmethod
    def connect(cls, url: str, credentials: Mapping[str, str]) -> "Sqlite":  # noqa: ARG003 - a file has none
        """Opens the file for reading. Raises NotFound."""
        try:
            from adbc_driver_sqlite import dbapi
        except ModuleNotFoundError as exc:
            raise BadSpec(_MISSING) from exc
        path = url.removeprefix(SQLITE)
        if not Path(path).is_file():
            raise NotFound(f"{path} does not exist.", uri=path)
        with _translated(path):
            return cls(dbapi.connect(f"file:{quote(path)}?mode=ro"), path)

    def columns(self, query: str) -> pa.Schema:
        """Every value's type is looked at; whole and other numbers together are float64."""
        with _translated(self.uri), self._connection.cursor() as cursor:
            cursor.execute(f"SELECT * FROM ({query}) LIMIT 0")
            names = cursor.fetch_record_batch().schema.names
        kinds = [f"max(typeof({quoted(name)}) = '{kind}')" for name in names for kind in self._TYPES]
        # A whole number that float64 doesn't hold comes back as another one.
        kinds += [
            f"max(typeof({quoted(name)}) = 'integer' AND CAST(CAST({quoted(name)} AS REAL) AS INTEGER) <> {quoted(name)})" for name in names
        ]
        flags = self.row(f"SELECT {', '.join(kinds)} FROM ({query})")
        fields: list[Any] = []
        for place, name in enumerate(names):
            found = [kind for kind, flag in zip(self._TYPES, flags[4 * place : 4 * place + 4], strict=True) if flag]
            if found == ["integer", "real"]:
                if flags[4 * len(names) + place]:
                    raise BadSpec(
                        f"{self.uri}: the column {name!r} has numbers with a fraction and whole numbers that float64 doesn't hold; "
                        "CAST it to TEXT or to INTEGER in source.sql.query."
                    )
                found = ["real"]
            if len(found) > 1:
                raise BadSpec(
                    f"{self.uri}: the column {name!r} has values of the types {' and '.join(found)}; CAST it to one in source.sql.query."
                )
            fields.append(pa.field(name, self._TYPES[found[0] if found else "integer"]))
        return pa.schema(fields)

    def selected(self, schema: pa.Schema) -> str:
        """The driver takes the type of the first rows for all, and NULL for a whole number: so there are no NULLs, and behind the columns is told where they were.

        Nothing has a name of its own, so that ORDER BY means the query's columns.
        """
        values = [self._WITHOUT_NULL.get(field.type, "{}").format(quoted(field.name)) for field in schema]
        marks = [" + ".join(f"({quoted(name)} IS NULL) * {1 << bit}" for bit, name in enumerate(names)) for names in self._marked(schema)]
        return ", ".join([*values, *marks])

    def _values(self, batch: pa.RecordBatch, schema: pa.Schema) -> Sequence[Any]:
        """With the NULLs."""
        values: list[Any] = batch.columns[: len(schema)]
        for names, marks in zip(self._marked(schema), batch.columns[len(schema) :], strict=True):
            bits = marks.to_numpy()
            for bit, name in enumerate(names if bits.any() else []):
                place = schema.get_field_index(name)
                values[place] = pc.if_else(pa.array(bits & 1 << bit != 0), pa.scalar(None, values[place].type), values[place])
        return values

    def _marked(self, schema: pa.Schema) -> list[list[str]]:
        """Columns whose NULLs are told, some in each number."""
        names = [field.name for field in schema if field.type in self._WITHOUT_NULL]
        return [names[first : first + _BITS] for first in range(0, len(names), _BITS)]

    def _prepare(self, cursor: Any) -> None:
        cursor.adbc_statement.set_options(**{"adbc.sqlite.query.batch_rows": str(_SQLITE_ROWS)})


_MISSING: Final = "source.sql needs ADBC's drivers: pip install 'dataprep-operator[sql]'."


def connect(url: str, access: Access) -> Database:
    """Opens a database for reading, with the user and password of the entry of `spec.stores` whose prefix fits."""
    if url.startswith(SQLITE):
        return Sqlite.connect(url, {})
    return Postgres.connect(url, next((found.credentials for found in access.settings if url.startswith(found.uri_prefix)), {}))


def quoted(name: str) -> str:
    """A column's name in a statement."""
    escaped = name.replace('"', '""')
    return f'"{escaped}"'


def _with_credentials(url: str, credentials: Mapping[str, str]) -> str:
    parts = urlsplit(url)
    host = parts.netloc.rpartition("@")[2]
    user = quote(credentials["accessKeyId"], safe="") if credentials else parts.netloc.rpartition("@")[0]
    password = ":" + quote(credentials["accessKeySecret"], safe="") if credentials else ""
    options = parts.query if "connect_timeout=" in parts.query else f"{parts.query}&connect_timeout={_CONNECT_SECONDS}".lstrip("&")
    return urlunsplit((parts.scheme, f"{user}{password}@{host}" if user else host, parts.path, options, ""))


def _is_numeric(kind: pa.DataType) -> bool:
    return isinstance(kind, pa.OpaqueType) and kind.type_name == "numeric"


def _stored(kind: pa.DataType) -> pa.DataType:
    return kind.storage_type if isinstance(kind, pa.BaseExtensionType) else kind


def _unread(field: "pa.Field[Any]", name: str, brackets: str = "") -> tuple[str, str, str] | None:
    """(column, type, brackets of an array) that the driver gives as other values (money as cents, oid with a sign) or as the server's own bytes."""
    kind: Any = field.type
    called = (field.metadata or {}).get(_SERVERS_TYPE, b"").decode()
    if called == "int2vector" or called in _READ:
        return None
    if pa.types.is_list(kind):
        return _unread(kind.value_field, name, "[]")
    if isinstance(kind, pa.StructType) and called != "record":
        return next(filter(None, (_unread(member, f"{name}/{member.name}") for member in kind)), None)
    if pa.types.is_string(kind) and called != "char":
        return None  # an enum, or a type of an extension that is text
    return name, called or str(kind), brackets


def _dates_and_times(path: tuple[str, ...], values: Any, rows: Any) -> Iterator[tuple[tuple[str, ...], Any, Any]]:
    """(path, single values, the row of each) of all dates and timestamps in a column."""
    kind = values.type
    if pa.types.is_date(kind) or pa.types.is_timestamp(kind):
        yield path, values, rows
    elif pa.types.is_list(kind):
        yield from _dates_and_times(path, pc.list_flatten(values), rows[pc.list_parent_indices(values).to_numpy()])
    elif isinstance(kind, pa.StructType):
        for member in kind:
            yield from _dates_and_times((*path, member.name), pc.struct_field(values, member.name), rows)


def _said_of_wrapped(value: int, *, is_date: bool) -> str:
    """What a date or a time of the server was before the driver moved it from 2000 to 1970."""
    bits, moved = (32, _EPOCH_DAYS) if is_date else (64, _EPOCH_DAYS * _DAY_MICROSECONDS)
    before = value - moved + (1 << bits if value - moved < -(1 << (bits - 1)) else 0)
    if before == (1 << (bits - 1)) - 1:
        return "is infinity"
    if before == -(1 << (bits - 1)):
        return "is -infinity"
    return "is later than 64 bits of microseconds hold"


def _as(column: Any, field: "pa.Field[Any]", uri: str, wrong: dict[int, str]) -> Array:
    """A column in its planned type; `wrong` gets the rows with a number that it can't say. Raises BadData for a value that isn't of it."""
    plain = column.storage if isinstance(column, pa.ExtensionArray) else column
    if plain.null_count == len(plain) and plain.type != field.type:
        return pc.if_else(pa.scalar(False), pa.nulls(len(plain), field.type), pa.nulls(len(plain), field.type))  # type: ignore[no-any-return]
    try:
        cast: Array = plain.cast(field.type)
    except pa.ArrowException as exc:
        raise BadData(f"{uri}: a value of the column {field.name!r} is no {field.type}: {exc}", uri=uri) from exc
    if field.type == pa.float64() and pa.types.is_string(plain.type):
        for row, text in _too_large(plain, cast):
            said = f"column {field.name!r} is too large for float64: {text[:20]}… ({len(text)} characters); CAST it to text in source.sql.query"
            wrong.setdefault(row, said)
    return cast


def _lost(column: Any, read: Array) -> Array:
    """The numerics of a column whose digits were not all read."""
    plain = column.storage if isinstance(column, pa.ExtensionArray) else column
    found = lost_digits(plain, read) if pa.types.is_string(plain.type) else None
    return pa.nulls(len(read), pa.string()) if found is None else found


def _too_large(texts: Any, numbers: Array) -> Iterator[tuple[int, str]]:
    """(row, as the server has it) of each numeric that became infinite and was not."""
    for row in np.flatnonzero(pc.fill_null(pc.is_inf(numbers), False).to_numpy(zero_copy_only=False)).tolist():
        text = texts[row].as_py()
        if "inf" not in text:
            yield row, text


def _not_connected(url: str, message: str) -> ConvertError:
    said = " ".join(message.split())
    if "authentication failed" in said or "no password supplied" in said:
        return BadCredentials(
            f"{url}: {said} Give user and password in a Secret (an entry of stores with this URL as its uriPrefix), or as PGPASSWORD.",
            uri=url,
        )
    if "does not exist" in said:
        return NotFound(f"{url}: {said}", uri=url)
    return Unreachable(f"{url}: {said}", uri=url)


@contextmanager
def _translated(uri: str) -> Iterator[None]:
    """The drivers' errors as ours, by their SQLSTATE."""
    from adbc_driver_manager import Error

    try:
        yield
    except Error as exc:
        said, state = " ".join(str(exc).split()), str(exc.sqlstate or "")
        if state == "42501":
            raise NotPermitted(f"{uri}: {said}", uri=uri) from exc
        if "database or disk is full" in said:
            raise StoreFull(f"{uri}: {said}: SQLite sorts in temporary files where no index has the order.", uri=uri) from exc
        if state[:2] in _TRANSIENT:
            raise Unreachable(f"{uri}: {said}", uri=uri) from exc
        if state[:2] == "22":
            raise BadData(f"{uri}: {said}", uri=uri) from exc
        # The driver asks a second time, which hides that the server has no binary form of a type (aclitem, gtsvector).
        is_hidden = "current transaction is aborted" in said
        hint = " A column may be of a type that has no binary form: CAST it to text in source.sql.query." if is_hidden else ""
        raise BadSpec(f"{uri}: {said}{hint}") from exc
    except OSError as exc:
        # What goes wrong between two batches comes through Arrow's streams, without a SQLSTATE.
        said = " ".join(str(exc).split())
        if _ERROR in said and not any(words in said for words in _TRANSIENT_WORDS):
            raise BadData(f"{uri}: {said}", uri=uri) from exc
        raise Unreachable(f"{uri}: {said}", uri=uri) from exc


_TRANSIENT: Final[Sequence[str]] = ("08", "40", "53", "57", "58")
"""Connection lost, serialization failure, out of resources, shut down, system error."""
_ERROR: Final = " ERROR: "
"""Severity of what a statement can't do with its values; the end of a connection is FATAL, or has none."""
_TRANSIENT_WORDS: Final = (
    "canceling statement",
    "could not serialize",
    "deadlock detected",
    "out of memory",
    "No space left",
    "could not read",
)
