"""The databases that `source.sql` can read. ADBC drivers return the rows as Arrow batches.

Connections are read-only. The drivers' errors are converted to this project's errors. Each kind of database has a class that connects to
the database and determines the columns of a query.
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

# ruff: noqa: S608 - the query comes from the user and runs on a read-only connection; names are quoted.

if TYPE_CHECKING:
    from adbc_driver_manager.dbapi import Connection

_CONNECT_SECONDS: Final = 15
_SERVERS_TYPE: Final = b"POSTGRESQL:type"
_UNNAMED: Final = "unnamed<oid:"
"""The prefix of the names that the driver gives to types that it doesn't know."""
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
"""The PostgreSQL types whose values the driver returns unchanged. Text can be read too, and also arrays and structs of the types in this
set."""
_INSTEAD: Final[Mapping[str, str]] = {"money": "numeric", "oid": "bigint"}
_FIRST_DAY: Final = -2_440_588
"""PostgreSQL's first date, 4714-11-24 BC, in days since 1970."""
_EPOCH_DAYS: Final = 10_957
"""The number of days from 1970 to 2000. PostgreSQL counts times from 2000."""
_DAY_MICROSECONDS: Final = 86_400_000_000
_REASON: Final = "\0reason"
"""The name of the column with the reasons for bad rows. No column of a query can have the same name."""
_BITS: Final = 62
"""The number of flags that are stored in one SQLite integer. The integer's sign bit isn't used."""
_SQLITE_ROWS: Final = 65_536
"""The number of rows in a batch. The driver infers the types of the columns from the first batch."""


class Database(Closeable):
    """A connection to a database. `batches` can be used for only one statement at a time."""

    true: ClassVar[str]

    def __init__(self, connection: "Connection", uri: str) -> None:
        self._connection = connection
        self.uri = uri
        """The URI for messages, without secrets."""

    def close(self) -> None:
        """Closes the connection."""
        self._connection.close()

    def columns(self, query: str) -> pa.Schema:
        """The columns of a query's result, with the types that `batches` returns. For a column that can't be read, raises BadSpec, which
        names the column."""
        raise NotImplementedError

    def selected(self, schema: pa.Schema) -> str:
        """The SQL expressions to select for the columns of `schema`."""
        return ", ".join(quoted(name) for name in schema.names)

    def unfit(self, rows: pa.RecordBatch) -> dict[int, str]:
        """The reason for each bad row in a batch that `batches` returned. A row is bad if it has a value that its column can't
        represent."""
        reasons = rows.column(rows.num_columns - 1)
        return {row: reasons[row].as_py() for row in np.flatnonzero(reasons.is_valid().to_numpy(zero_copy_only=False)).tolist()}

    def row(self, statement: str) -> tuple[Any, ...]:
        """The only row of a statement's result."""
        with _translate_errors(self.uri), self._connection.cursor() as cursor:
            cursor.execute(statement)
            return tuple(cursor.fetchone() or ())

    def batches(self, statement: str, schema: pa.Schema, *, lost_of: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Streams the rows of a statement in batches of any size.

        The columns of `schema` are followed by one additional column for each name in `lost_of`. Each additional column contains the
        original text of the numeric values that lost digits. The last column contains the reasons that `unfit` returns.
        """
        full_schema = pa.schema([*schema, *((lost_name(name), pa.string()) for name in lost_of), (_REASON, pa.string())])
        places = [schema.get_field_index(name) for name in lost_of]
        with _translate_errors(self.uri), self._connection.cursor() as cursor:
            self._prepare(cursor)
            cursor.execute(statement)
            for batch in cursor.fetch_record_batch():
                wrong: dict[int, str] = {}
                values = self._values(batch, schema)
                columns = [_convert_column(column, field, self.uri, wrong) for column, field in zip(values, schema, strict=True)]
                columns += [_lost(values[place], columns[place]) for place in places]
                reasons = pa.array([wrong.get(row) for row in range(len(batch))] if wrong else pa.nulls(len(batch)), pa.string())
                yield pa.RecordBatch.from_arrays([*columns, reasons], schema=full_schema)

    def _values(self, batch: pa.RecordBatch, schema: pa.Schema) -> Sequence[Any]:  # noqa: ARG002 - overriding methods use it
        """Returns the columns of the schema, given a batch of the columns that the statement selected."""
        return batch.columns

    def _prepare(self, cursor: Any) -> None:
        """Sets the options of a statement."""


class Postgres(Database):
    """PostgreSQL, and databases with the same protocol."""

    @classmethod
    def connect(cls, url: str, credentials: Mapping[str, str]) -> "Postgres":
        """Opens a connection. The user and the password come from `credentials`, the URL, or libpq's environment variables (PGUSER,
        PGPASSWORD, PGPASSFILE)."""
        try:
            from adbc_driver_postgresql import dbapi  # type: ignore[import-untyped]  # the package has no types
        except ModuleNotFoundError as exc:
            raise BadSpec(_MISSING) from exc
        with _translate_errors(url):
            try:
                connection = dbapi.connect(_with_credentials(url, credentials))
            except dbapi.Error as exc:
                raise _connection_error(url, str(exc)) from exc
            with connection.cursor() as cursor:
                # All statements of this connection read the same snapshot.
                cursor.execute("SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
            connection.commit()
        return cls(connection, url)

    def columns(self, query: str) -> pa.Schema:
        """The columns of a query's result, from the server."""
        with _translate_errors(self.uri), self._connection.cursor() as cursor:
            cursor.execute(f"SELECT * FROM ({query}) AS q LIMIT 0")
            schema = cursor.fetch_record_batch().schema
        for field in schema:
            if unreadable := _find_unreadable(field, field.name):
                name, kind, brackets = unreadable
                if kind.startswith(_UNNAMED):
                    (kind,) = self.row(f"SELECT {int(kind.removeprefix(_UNNAMED).rstrip('>'))}::regtype::text")
                other = f"{_INSTEAD[kind]}{brackets} or to " if kind in _INSTEAD else ""
                raise BadSpec(
                    f"{self.uri}: the column {name!r} is {kind}{brackets}, which can't be read. CAST it to {other}text in source.sql.query."
                )
        return pa.schema([pa.field(field.name, pa.float64() if _is_numeric(field.type) else _storage_type(field.type)) for field in schema])

    def unfit(self, rows: pa.RecordBatch) -> dict[int, str]:
        """Also finds rows with a date or time that is infinite or doesn't fit into 64 bits.

        For such a value, an addition in the driver overflows. The result can be recognised, because it is before PostgreSQL's first date.
        """
        wrong = super().unfit(rows)
        for field, values in zip(rows.schema, rows.columns, strict=True):
            for path, inner, places in _dates_and_times((field.name,), values, np.arange(len(values), dtype=np.int64)):
                is_date = pa.types.is_date(inner.type)
                numbers: Any = inner.cast(pa.int32() if is_date else pa.int64())
                first = _FIRST_DAY if is_date else _FIRST_DAY * _DAY_MICROSECONDS
                early = pc.fill_null(pc.less(numbers, pa.scalar(first, numbers.type)), False).to_numpy(zero_copy_only=False)
                for place in np.flatnonzero(early).tolist():
                    description = _describe_wrapped(numbers[place].as_py(), is_date=is_date)
                    wrong.setdefault(int(places[place]), f"column {'/'.join(path)!r} {description}")
        return wrong


class Sqlite(Database):
    """An SQLite file. In SQLite, values have types but columns don't, so the type of a column is the type of its values."""

    _TYPES: ClassVar[Mapping[str, pa.DataType]] = {"integer": pa.int64(), "real": pa.float64(), "text": pa.string(), "blob": pa.binary()}
    _WITHOUT_NULL: ClassVar[Mapping[pa.DataType, str]] = {
        pa.float64(): "coalesce(CAST({} AS REAL), 0.0)",
        pa.string(): "coalesce({}, '')",
        pa.binary(): "coalesce({}, x'')",
    }

    @classmethod
    def connect(cls, url: str, credentials: Mapping[str, str]) -> "Sqlite":  # noqa: ARG003 - a file needs no credentials
        """Opens the file for reading. Raises NotFound if the file doesn't exist."""
        try:
            from adbc_driver_sqlite import dbapi
        except ModuleNotFoundError as exc:
            raise BadSpec(_MISSING) from exc
        path = url.removeprefix(SQLITE)
        if not Path(path).is_file():
            raise NotFound(f"{path} does not exist.", uri=path)
        with _translate_errors(path):
            return cls(dbapi.connect(f"file:{quote(path)}?mode=ro"), path)

    def columns(self, query: str) -> pa.Schema:
        """The columns of a query's result. Checks the type of every value. A column with both whole and fractional numbers is float64."""
        with _translate_errors(self.uri), self._connection.cursor() as cursor:
            cursor.execute(f"SELECT * FROM ({query}) LIMIT 0")
            names = cursor.fetch_record_batch().schema.names
        kinds = [f"max(typeof({quoted(name)}) = '{kind}')" for name in names for kind in self._TYPES]
        # A whole number that float64 can't represent exactly changes when it is cast to REAL and back.
        kinds += [
            f"max(typeof({quoted(name)}) = 'integer' AND CAST(CAST({quoted(name)} AS REAL) AS INTEGER) <> {quoted(name)})" for name in names
        ]
        flags = self.row(f"SELECT {', '.join(kinds)} FROM ({query})")
        fields: list[Any] = []
        for place, name in enumerate(names):
            value_types = [kind for kind, flag in zip(self._TYPES, flags[4 * place : 4 * place + 4], strict=True) if flag]
            if value_types == ["integer", "real"]:
                if flags[4 * len(names) + place]:
                    raise BadSpec(
                        f"{self.uri}: the column {name!r} has numbers with a fraction and whole numbers that float64 can't represent exactly; "
                        "CAST it to TEXT or to INTEGER in source.sql.query."
                    )
                value_types = ["real"]
            if len(value_types) > 1:
                raise BadSpec(
                    f"{self.uri}: the column {name!r} has values of the types {' and '.join(value_types)}; CAST it to a single type in source.sql.query."
                )
            fields.append(pa.field(name, self._TYPES[value_types[0] if value_types else "integer"]))
        return pa.schema(fields)

    def selected(self, schema: pa.Schema) -> str:
        """The SQL expressions to select for the columns of `schema`. The expressions replace each NULL with a value, and additional
        expressions at the end mark the NULLs.

        The NULLs are replaced because the driver infers the type of a column from the first rows, and treats NULL as a whole number. The
        expressions have no names, so that ORDER BY refers to the columns of the query.
        """
        values = [self._WITHOUT_NULL.get(field.type, "{}").format(quoted(field.name)) for field in schema]
        marks = [
            " + ".join(f"({quoted(name)} IS NULL) * {1 << bit}" for bit, name in enumerate(names)) for names in self._marked_columns(schema)
        ]
        return ", ".join([*values, *marks])

    def _values(self, batch: pa.RecordBatch, schema: pa.Schema) -> Sequence[Any]:
        """The columns of the schema, with their NULLs restored."""
        values: list[Any] = batch.columns[: len(schema)]
        for names, marks in zip(self._marked_columns(schema), batch.columns[len(schema) :], strict=True):
            bits = marks.to_numpy()
            for bit, name in enumerate(names if bits.any() else []):
                place = schema.get_field_index(name)
                values[place] = pc.if_else(pa.array(bits & 1 << bit != 0), pa.scalar(None, values[place].type), values[place])
        return values

    def _marked_columns(self, schema: pa.Schema) -> list[list[str]]:
        """The columns whose NULLs are marked, divided into groups. For each group, every row has one number, with a bit for each column of
        the group."""
        names = [field.name for field in schema if field.type in self._WITHOUT_NULL]
        return [names[first : first + _BITS] for first in range(0, len(names), _BITS)]

    def _prepare(self, cursor: Any) -> None:
        cursor.adbc_statement.set_options(**{"adbc.sqlite.query.batch_rows": str(_SQLITE_ROWS)})


_MISSING: Final = "source.sql needs ADBC's drivers: pip install 'dataprep-operator[sql]'."


def connect(url: str, access: Access) -> Database:
    """Opens a database for reading. The user and the password come from the entry of `spec.stores` whose prefix matches the URL."""
    if url.startswith(SQLITE):
        return Sqlite.connect(url, {})
    return Postgres.connect(url, next((settings.credentials for settings in access.settings if url.startswith(settings.uri_prefix)), {}))


def quoted(name: str) -> str:
    """A column's name, quoted for an SQL statement."""
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


def _storage_type(kind: pa.DataType) -> pa.DataType:
    return kind.storage_type if isinstance(kind, pa.BaseExtensionType) else kind


def _find_unreadable(field: "pa.Field[Any]", name: str, brackets: str = "") -> tuple[str, str, str] | None:
    """The (column, type, brackets of an array type) of a column that can't be read, or None if the column can be read.

    The driver changes the values of some types (`money` becomes cents, `oid` becomes signed), and returns the values of other types as the
    server's internal bytes.
    """
    kind: Any = field.type
    type_name = (field.metadata or {}).get(_SERVERS_TYPE, b"").decode()
    if type_name == "int2vector" or type_name in _READ:
        return None
    if pa.types.is_list(kind):
        return _find_unreadable(kind.value_field, name, "[]")
    if isinstance(kind, pa.StructType) and type_name != "record":
        return next(filter(None, (_find_unreadable(member, f"{name}/{member.name}") for member in kind)), None)
    if pa.types.is_string(kind) and type_name != "char":
        return None  # an enum, or a type from an extension that is received as text
    return name, type_name or str(kind), brackets


def _dates_and_times(path: tuple[str, ...], values: Any, rows: Any) -> Iterator[tuple[tuple[str, ...], Any, Any]]:
    """Yields the dates and timestamps in a column, which can be nested. Each result is a tuple: the path, the single values, and the row of
    each value."""
    kind = values.type
    if pa.types.is_date(kind) or pa.types.is_timestamp(kind):
        yield path, values, rows
    elif pa.types.is_list(kind):
        yield from _dates_and_times(path, pc.list_flatten(values), rows[pc.list_parent_indices(values).to_numpy()])
    elif isinstance(kind, pa.StructType):
        for member in kind:
            yield from _dates_and_times((*path, member.name), pc.struct_field(values, member.name), rows)


def _describe_wrapped(value: int, *, is_date: bool) -> str:
    """The part of a message that describes the original value of an overflowed date or time. The value overflowed when the driver
    converted it from a time since 2000 to a time since 1970."""
    bits, offset = (32, _EPOCH_DAYS) if is_date else (64, _EPOCH_DAYS * _DAY_MICROSECONDS)
    before = value - offset + (1 << bits if value - offset < -(1 << (bits - 1)) else 0)
    if before == (1 << (bits - 1)) - 1:
        return "is infinity"
    if before == -(1 << (bits - 1)):
        return "is -infinity"
    return "is later than 64 bits of microseconds hold"


def _convert_column(column: Any, field: "pa.Field[Any]", uri: str, wrong: dict[int, str]) -> Array:
    """The column, converted to its planned type. For each row with a number that is too large, adds the reason to `wrong`. Raises BadData
    for a value that is not of the planned type."""
    plain = column.storage if isinstance(column, pa.ExtensionArray) else column
    if plain.null_count == len(plain) and plain.type != field.type:
        return pc.if_else(pa.scalar(False), pa.nulls(len(plain), field.type), pa.nulls(len(plain), field.type))  # type: ignore[no-any-return]
    try:
        cast: Array = plain.cast(field.type)
    except pa.ArrowException as exc:
        raise BadData(f"{uri}: a value of the column {field.name!r} is not of the type {field.type}: {exc}", uri=uri) from exc
    if field.type == pa.float64() and pa.types.is_string(plain.type):
        for row, text in _too_large(plain, cast):
            reason = f"column {field.name!r} is too large for float64: {text[:20]}… ({len(text)} characters); CAST it to text in source.sql.query"
            wrong.setdefault(row, reason)
    return cast


def _lost(column: Any, numbers: Array) -> Array:
    """The original text of each numeric value that lost digits; null in all other rows of the column."""
    plain = column.storage if isinstance(column, pa.ExtensionArray) else column
    texts = lost_digits(plain, numbers) if pa.types.is_string(plain.type) else None
    return pa.nulls(len(numbers), pa.string()) if texts is None else texts


def _too_large(texts: Any, numbers: Array) -> Iterator[tuple[int, str]]:
    """Yields the row and the original text of each finite numeric value that became infinite."""
    for row in np.flatnonzero(pc.fill_null(pc.is_inf(numbers), False).to_numpy(zero_copy_only=False)).tolist():
        text = texts[row].as_py()
        if "inf" not in text:
            yield row, text


def _connection_error(url: str, error: str) -> ConvertError:
    message = " ".join(error.split())
    if "authentication failed" in message or "no password supplied" in message:
        return BadCredentials(
            f"{url} refuses the login: {message} Give user and password in the Secret of an entry of `stores` whose uriPrefix is this URL, or set PGPASSWORD.",
            uri=url,
        )
    if "does not exist" in message:
        return NotFound(f"{url} can't be opened: {message}", uri=url)
    return Unreachable(f"{url}: can't connect: {message}", uri=url)


@contextmanager
def _translate_errors(uri: str) -> Iterator[None]:
    """Converts the drivers' errors to this project's errors, according to their SQLSTATE."""
    from adbc_driver_manager import Error

    try:
        yield
    except Error as exc:
        message, state = " ".join(str(exc).split()), str(exc.sqlstate or "")
        if state == "42501":
            raise NotPermitted(f"{uri} doesn't permit the statement: {message}", uri=uri) from exc
        if "database or disk is full" in message:
            raise StoreFull(
                f"{uri}: the rows can't be sorted: {message}. SQLite sorts in temporary files unless an index has the required order.",
                uri=uri,
            ) from exc
        if state[:2] in _TRANSIENT:
            raise Unreachable(f"{uri} didn't finish the statement: {message}", uri=uri) from exc
        if state[:2] == "22":
            raise BadData(f"{uri} can't compute a value of source.sql.query: {message}", uri=uri) from exc
        # If the server can't send a type in binary form (aclitem, gtsvector), the driver tries again, and reports only the second error.
        is_hidden = "current transaction is aborted" in message
        hint = " A column may be of a type that has no binary form: CAST it to text in source.sql.query." if is_hidden else ""
        raise BadSpec(f"{uri} refuses the statement of source.sql.query: {message}{hint}") from exc
    except OSError as exc:
        # Errors between two batches are raised by Arrow's streams, and have no SQLSTATE.
        message = " ".join(str(exc).split())
        if _ERROR in message and not any(words in message for words in _TRANSIENT_WORDS):
            raise BadData(f"{uri} can't compute a value of source.sql.query: {message}", uri=uri) from exc
        raise Unreachable(f"{uri} didn't finish the statement: {message}", uri=uri) from exc


_TRANSIENT: Final[Sequence[str]] = ("08", "40", "53", "57", "58")
"""The SQLSTATE classes of a lost connection, a serialization failure, a lack of resources, a shutdown and a system error."""
_ERROR: Final = " ERROR: "
"""The severity of errors about a statement's values. If the connection ends, the severity is FATAL or missing."""
_TRANSIENT_WORDS: Final = (
    "canceling statement",
    "could not serialize",
    "deadlock detected",
    "out of memory",
    "No space left",
    "could not read",
)
