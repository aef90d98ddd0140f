"""Databases behind `source.sql`, through ADBC: rows come as Arrow batches. Statements may only read. Foreign errors become ours here.

What differs between databases is a class each: how to connect, and what the columns of a query are.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, ClassVar, Final, Self
from urllib.parse import quote, urlsplit, urlunsplit

import pyarrow as pa

from dataprep_api.spec.sources.sql import SQLITE
from dataprep_converter.access import Access
from dataprep_converter.errors import BadCredentials, BadData, BadSpec, ConvertError, NotFound, NotPermitted, Unreachable
from dataprep_converter.tensors import Array, kernels

# ruff: noqa: S608 - the query is the user's own, on a connection that can't write; names are quoted.

if TYPE_CHECKING:
    from adbc_driver_manager.dbapi import Connection

_CONNECT_SECONDS: Final = 15
_SQLITE_ROWS: Final = 65_536
"""Rows of a batch; from the first one the driver tells the columns' types."""


class Database:
    """One connection. `batches` may be used for one statement at a time."""

    true: ClassVar[str]

    def __init__(self, connection: "Connection", uri: str) -> None:
        self._connection = connection
        self.uri = uri
        """Without anything secret: for messages."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._connection.close()

    def columns(self, query: str) -> pa.Schema:
        """The columns of a query's result and the types in which `batches` gives them. Raises BadSpec naming one that has none."""
        raise NotImplementedError

    def selected(self, schema: pa.Schema) -> str:
        """What to select for these columns."""
        return ", ".join(quoted(name) for name in schema.names)

    def row(self, statement: str) -> tuple[Any, ...]:
        """The only row of a result."""
        with _translated(self.uri), self._connection.cursor() as cursor:
            cursor.execute(statement)
            return tuple(cursor.fetchone() or ())

    def batches(self, statement: str, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        """The rows, streaming, in batches of any size."""
        with _translated(self.uri), self._connection.cursor() as cursor:
            self._prepare(cursor)
            cursor.execute(statement)
            for batch in cursor.fetch_record_batch():
                columns = [_as(column, field, self.uri) for column, field in zip(batch.columns, schema, strict=True)]
                yield pa.RecordBatch.from_arrays(columns, schema=schema)

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
        return pa.schema([pa.field(field.name, pa.float64() if _is_numeric(field.type) else _stored(field.type)) for field in found])


class Sqlite(Database):
    """A file of SQLite. Values have types there, columns don't: a column's type is that of its values."""

    _TYPES: ClassVar[Mapping[str, pa.DataType]] = {"integer": pa.int64(), "real": pa.float64(), "text": pa.string(), "blob": pa.binary()}

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
        flags = self.row(f"SELECT {', '.join(kinds)} FROM ({query})")
        fields: list[Any] = []
        for place, name in enumerate(names):
            found = [kind for kind, flag in zip(self._TYPES, flags[4 * place : 4 * place + 4], strict=True) if flag]
            if found == ["integer", "real"]:
                found = ["real"]
            if len(found) > 1:
                raise BadSpec(
                    f"{self.uri}: the column {name!r} has values of the types {' and '.join(found)}; CAST it to one in source.sql.query."
                )
            fields.append(pa.field(name, self._TYPES[found[0] if found else "integer"]))
        return pa.schema(fields)

    def selected(self, schema: pa.Schema) -> str:
        """Numbers as REAL where some are: the driver takes the first rows' type for all."""
        return ", ".join(
            f"CAST({quoted(field.name)} AS REAL) AS {quoted(field.name)}" if field.type == pa.float64() else quoted(field.name)
            for field in schema
        )

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


def _as(column: Any, field: "pa.Field[Any]", uri: str) -> Array:
    """A column in its planned type. Raises BadData for a value that isn't of it."""
    plain = column.storage if isinstance(column, pa.ExtensionArray) else column
    if plain.null_count == len(plain) and plain.type != field.type:
        return kernels.if_else(pa.scalar(False), pa.nulls(len(plain), field.type), pa.nulls(len(plain), field.type))  # type: ignore[no-any-return]
    try:
        cast: Array = plain.cast(field.type)
    except pa.ArrowException as exc:
        raise BadData(f"{uri}: a value of the column {field.name!r} is no {field.type}: {exc}", uri=uri) from exc
    return cast


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
        if state[:2] in _TRANSIENT:
            raise Unreachable(f"{uri}: {said}", uri=uri) from exc
        if state[:2] == "22":
            raise BadData(f"{uri}: {said}", uri=uri) from exc
        raise BadSpec(f"{uri}: {said}") from exc


_TRANSIENT: Final[Sequence[str]] = ("08", "40", "53", "57", "58")
"""Connection lost, serialization failure, out of resources, shut down, system error."""
