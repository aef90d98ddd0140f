"""MaxCompute through its own SDK, pyodps: tables, partitions, and sessions for reading and writing rows. Translates the SDK's errors.

A download session is a snapshot of a table with numbered rows. Every process that knows the session's id reads the same row under the same
number. The service ends a session after a day.
"""

import logging
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, Final, Self
from urllib.parse import urlsplit

import pyarrow as pa

from dataprep_converter.core.errors import (
    BadCredentials,
    BadSpec,
    ConvertError,
    InputChanged,
    NotFound,
    NotPermitted,
    StoreError,
    Unreachable,
)
from dataprep_converter.inputs.access import Access
from dataprep_converter.runtime.retry import retrying
from dataprep_converter.stores import StoreSettings

SCHEME: Final = "odps"
CONNECT_SECONDS: Final = 5
ANSWER_SECONDS: Final = 60
ATTEMPTS: Final = 3

_MISSING: Final = "source.table needs MaxCompute's client: pip install 'dataprep-operator[maxcompute]'."
_RIGHT = re.compile(r"[Pp]rivilege '(odps:\w+)' on \{?([^\s{}]*)")
_ENDED: Final = {"StatusConflict", "NoSuchDownload", "NoSuchUpload", "DownloadSessionNotFound"}
_CHANGED: Final = {"TableModified", "DataVersionConflict", "SchemaModified", "NoSuchData"}
_ABSENT: Final = {"NoSuchProject", "NoSuchSchema", "NoSuchTable", "NoSuchPartition", "NoSuchObject", "ODPS-0130131"}
_REFUSED: Final = {
    "Unauthorized",
    "SignatureNotMatch",
    "AuthorizationRequired",
    "AuthenticationRequestExpired",
    "RequestTimeTooSkewed",
    "InvalidAccessKeyId",
    "InvalidAccessKeyId.NotFound",
    "InvalidSecurityToken",
}
_REFUSED_NUMBERS: Final = "ODPS-04100"
_PASSING: Final = {
    "CorruptedDataStream",
    "DataUnderReplication",
    "FlowExceeded",
    "IncompleteBody",
    "InternalServerError",
    "MetaTransactionFailed",
    "RequestTimeOut",
    "ServiceUnavailable",
}
_NOT_UNDERSTOOD: Final = (ValueError, LookupError, TypeError, AttributeError, ArithmeticError, SyntaxError)
"""Errors that the SDK's parsers raise for responses that aren't XML or JSON, or that lack a field documented for the API."""
_TOO_MANY: Final = 429
"""The HTTP status for too many requests."""
_NOT_PERMITTED: Final = {"NoPermission", "AccessDenied", "ODPS-0130013", "ODPS-0420095"}


class SessionEnded(InputChanged):
    """The session has ended, or never existed. The table may still be unchanged."""


@dataclass(frozen=True)
class Place:
    """A table, or a partition of a table."""

    project: str
    table: str
    partition: str
    """The partition in pyodps's form, `pt=1,region=cn`; empty for the complete table."""

    @classmethod
    def of(cls, uri: str) -> Self:
        """Returns the place that `odps://project/tables/t[/pt=1[/region=cn]]` names. The URI was validated together with the spec."""
        project, _, table, *keys = uri.removeprefix(f"{SCHEME}://").rstrip("/").split("/")
        return cls(project, table, ",".join(keys))


class Table:
    """A table or a partition, with its own client. Each instance belongs to one process."""

    def __init__(self, uri: str, access: Access) -> None:
        self.uri = uri
        self._place = Place.of(uri)
        self._client = _client(uri, self._place.project, access)
        self._peer = urlsplit(self._client.endpoint).netloc

    def version(self) -> str:
        """Returns a version that changes whenever a row is added, removed or changed.

        Raises NotFound. Raises BadSpec if the URI's partition doesn't have the partition keys of the table.
        """
        return retrying(self._version, what=f"looking at {self.uri}")

    def _version(self) -> str:
        with _border(self.uri, self._peer):
            table = self._client.get_table(self._place.table, project=self._place.project)
            table.reload()
            keys = [column.name for column in table.table_schema.partitions or []]
            self._check_keys(keys)
            versioned = table
            if keys:
                versioned = table.get_partition(self._place.partition)
                versioned.reload()
            return f"{versioned.last_data_modified_time.timestamp():.3f}" if versioned.last_data_modified_time else ""

    def _check_keys(self, keys: Sequence[str]) -> None:
        actual = [key.partition("=")[0] for key in self._place.partition.split(",") if key]
        if actual != keys:
            table = f"{SCHEME}://{self._place.project}/tables/{self._place.table}"
            if not keys:
                raise BadSpec(f"{self.uri}: the table has no partitions; its rows are at {table}.")
            example = "/".join([table, *(f"{key}=…" for key in keys)])
            raise BadSpec(f"{self.uri}: the table is partitioned by {', '.join(keys)}; name a partition: {example}.")

    def session(self, identifier: str | None = None) -> "Session":
        """Returns the download session with this id, or a new one. Raises SessionEnded."""
        return retrying(lambda: self._open_download(identifier), what=f"opening {self.uri}")

    def _open_download(self, identifier: str | None) -> "Session":
        tunnel, peer = self._tunnel()
        with _border(self.uri, peer):
            session = tunnel.create_download_session(
                self._place.table, partition_spec=self._place.partition or None, download_id=identifier, async_mode=True
            )
            if session.status != session.Status.Normal:
                raise SessionEnded(f"{self.uri}: the download session {session.id} is {session.status.value}.", uri=self.uri)
            return Session(self.uri, session, peer)

    def columns(self) -> pa.Schema:
        """Returns the schema in which the service accepts rows, without the partition's columns.

        Raises BadSpec if Arrow has no type for a column. The error names the column.
        """
        from odps.tunnel.io.types import odps_type_to_arrow_type  # type: ignore[import-untyped] # pyodps has no types

        kinds = retrying(self._kinds, what=f"looking at {self.uri}")
        fields: dict[str, pa.DataType] = {}
        for name, kind in kinds.items():
            try:
                fields[name] = odps_type_to_arrow_type(kind)
            except TypeError as exc:
                raise BadSpec(f"{self.uri}: the column {name!r} is {kind}, which can't be written.") from exc
        return pa.schema(list(fields.items()))

    def _kinds(self) -> dict[str, Any]:
        """Returns MaxCompute's type of each column."""
        with _border(self.uri, self._peer):
            table = self._client.get_table(self._place.table, project=self._place.project)
            return {column.name: column.type for column in table.table_schema.simple_columns}

    def upload(self, identifier: str | None = None) -> "Upload":
        """Returns the upload session with this id, or a new session. Committing it replaces all rows. Creates the partition if needed."""
        return retrying(lambda: self._open_upload(identifier), what=f"opening {self.uri} for writing")

    def _open_upload(self, identifier: str | None) -> "Upload":
        tunnel, peer = self._tunnel()
        with _border(self.uri, peer):
            session = tunnel.create_upload_session(
                self._place.table,
                partition_spec=self._place.partition or None,
                upload_id=identifier,
                overwrite=True,
                create_partition=bool(self._place.partition),
            )
            return Upload(self.uri, session, peer)

    def _tunnel(self) -> tuple[Any, str]:
        """Returns the SDK's client for the Tunnel service, and the service's host and port."""
        from odps.tunnel import TableTunnel  # type: ignore[import-untyped] # see above

        with _border(self.uri, self._peer):
            tunnel = TableTunnel(self._client, project=self._place.project, endpoint=self._client.tunnel_endpoint)
            return tunnel, urlsplit(tunnel.tunnel_rest.endpoint).netloc


class Session:
    """A download session: a snapshot of a table's rows in a fixed order."""

    def __init__(self, uri: str, session: Any, peer: str) -> None:
        self.uri = uri
        self._session = session
        self._peer = peer
        self.id: str = session.id
        self.count: int = int(session.count)
        self._columns = list(session.schema.simple_columns)
        self._narrowed: set[str] | None = None

    def columns(self) -> dict[str, str]:
        """Returns MaxCompute's type of each column, without the partition's columns."""
        return {column.name: str(column.type) for column in self._columns}

    def type_of(self, column: str) -> pa.DataType | None:
        """Returns the Arrow type that a column has in batches, or None if Arrow has no such type."""
        from odps.tunnel.io.types import odps_type_to_arrow_type

        try:
            kind: pa.DataType = odps_type_to_arrow_type(next(field.type for field in self._columns if field.name == column))
        except TypeError:
            return None
        return kind

    def batches(self, start: int, count: int, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Yields exactly `count` rows, beginning with row `start`. The service chooses the size of the batches.

        Raises SessionEnded, InputChanged, Unreachable.
        """
        self._narrow(columns)
        with _border(self.uri, self._peer), self._session.open_arrow_reader(start, count, columns=list(columns)) as reader:
            rows = 0
            while (batch := reader.read_next_batch()) is not None:
                rows += batch.num_rows
                yield batch
            if rows != count:
                # Count the rows, because a stream that breaks right after a checksum looks complete.
                raise Unreachable(
                    f"{self.uri}: {self._peer} sent {rows:,} rows instead of the {count:,} rows that start at row {start:,}.", uri=self.uri
                )

    def _narrow(self, columns: Sequence[str]) -> None:
        """Shows only these columns to the SDK, because the SDK fails if a table has a column whose type the SDK doesn't know."""
        from odps.models import TableSchema  # type: ignore[import-untyped] # see above

        if self._narrowed != set(columns):
            self._narrowed = set(columns)
            self._session.schema = TableSchema(columns=[column for column in self._columns if column.name in self._narrowed])


class Upload:
    """An upload session: numbered blocks of rows, which all become visible together.

    Any process may write any block, and may overwrite a block that was already written.
    """

    def __init__(self, uri: str, session: Any, peer: str) -> None:
        self.uri = uri
        self._session = session
        self._peer = peer
        self.id: str = session.id

    @property
    def is_open(self) -> bool:
        """Whether the session accepts blocks, according to the last response."""
        return bool(self._session.status == self._session.Status.Normal)

    @property
    def is_committed(self) -> bool:
        """Whether the session's rows are visible, according to the last response."""
        return bool(self._session.status == self._session.Status.Closed)

    def blocks(self) -> set[int]:
        """Returns the numbers of the blocks that the service has received."""
        with _border(self.uri, self._peer):
            return {int(number) for number in self._session.get_block_list()}

    def put(self, block: int, batches: Iterable[pa.RecordBatch]) -> None:
        """Writes a block of at least one row. An existing block with the same number is replaced."""
        from odps.tunnel.io import writer  # type: ignore[import-untyped] # see above

        if writer.pd is None:
            # pyodps checks whether the rows are a pandas DataFrame, even if pandas isn't installed. So give it a stand-in for pandas.
            writer.pd = SimpleNamespace(DataFrame=())
        with _border(self.uri, self._peer), self._session.open_arrow_writer(block) as out:
            for batch in batches:
                out.write(batch)

    def commit(self, blocks: set[int]) -> None:
        """Makes the rows visible. If the session has already been committed, its rows stay unchanged."""
        with _border(self.uri, self._peer):
            try:
                self._session.commit(sorted(blocks))
            except Exception:
                # The commit may have succeeded even though no response arrived.
                self._session.reload()
                if not self.is_committed:
                    raise


def check(uri: str, access: Access) -> None:
    """Checks that a table is accessible, as part of the preflight. Raises one of dataprep's errors if it isn't."""
    Table(uri, access).version()


def _client(uri: str, project: str, access: Access) -> Any:
    try:
        import odps  # type: ignore[import-untyped] # see above
    except ModuleNotFoundError as exc:
        raise BadSpec(_MISSING) from exc
    settings = access.settings_of(uri)
    endpoint = settings.endpoint or os.environ.get("ODPS_ENDPOINT")
    if not endpoint:
        raise BadSpec(
            f"{uri}: the store {settings.uri_prefix} needs endpoint (or ODPS_ENDPOINT), such as https://service.cn-shenzhen.maxcompute.aliyun.com/api."
        )
    # The SDK logs every session, including tokens.
    logging.getLogger("odps").setLevel(logging.WARNING)
    # Interpret times as UTC, not in the time zone of this machine.
    odps.options.local_timezone = False
    odps.options.connect_timeout = CONNECT_SECONDS
    odps.options.read_timeout = ANSWER_SECONDS
    odps.options.retry_times = ATTEMPTS - 1
    return odps.ODPS(
        account=_account(uri, settings),
        project=project,
        endpoint=endpoint,
        tunnel_endpoint=settings.tunnel_endpoint or os.environ.get("ODPS_TUNNEL_ENDPOINT") or None,
        region_name=settings.region,
        # Without `logview_host`, the SDK would query the service for the address of SQL logs. We run no SQL, so this address is never used.
        logview_host=endpoint,
        # By default, the SDK would store the key in a global variable of this process.
        overwrite_global=False,
    )


def _account(uri: str, settings: StoreSettings) -> Any:
    from odps import accounts

    keys = settings.credentials or _environment()
    if not keys:
        return accounts.CredentialProviderAccount(_role_provider(uri))
    if token := keys.get("securityToken"):
        return accounts.StsAccount(keys["accessKeyId"], keys["accessKeySecret"], token, expired_hours=None)
    return accounts.CloudAccount(keys["accessKeyId"], keys["accessKeySecret"])


def _environment() -> dict[str, str]:
    for identifier, secret, token in (
        ("ODPS_ACCESS_ID", "ODPS_ACCESS_KEY", "ODPS_STS_TOKEN"),
        ("ALIBABA_CLOUD_ACCESS_KEY_ID", "ALIBABA_CLOUD_ACCESS_KEY_SECRET", "ALIBABA_CLOUD_SECURITY_TOKEN"),
    ):
        if os.environ.get(identifier) and os.environ.get(secret):
            keys = {"accessKeyId": os.environ[identifier], "accessKeySecret": os.environ[secret]}
            return keys | ({"securityToken": os.environ[token]} if os.environ.get(token) else {})
    return {}


def _role_provider(uri: str) -> Any:
    """Returns the provider of a role's credentials, after checking that the provider works.

    Raises BadCredentials if the provider doesn't work. The provider is checked before the first request, because within a request the SDK
    would retry a provider's error forever.
    """
    from dataprep_converter.stores.credentials.alibaba import AlibabaCredentials

    chain = AlibabaCredentials()
    try:
        chain.get_credential()
    except ModuleNotFoundError as exc:
        raise BadSpec(_MISSING) from exc
    except (BadCredentials, Unreachable) as exc:
        raise type(exc)(f"{uri}: {exc}", uri=uri) from exc
    return chain


@contextmanager
def _border(uri: str, peer: str) -> Iterator[None]:
    """Translates the SDK's errors."""
    import requests
    from odps.errors import BaseODPSError  # type: ignore[import-untyped] # see above
    from odps.tunnel.pb.errors import DecodeError  # type: ignore[import-untyped] # see above

    try:
        yield
    except BaseODPSError as exc:
        raise _to_our_error(exc, uri, peer) from exc
    except requests.RequestException as exc:
        raise Unreachable(f"{uri}: cannot connect to {peer}: {_line(exc)}", uri=uri) from exc
    except (DecodeError, OSError, pa.ArrowException) as exc:
        raise Unreachable(f"{uri}: the rows that {peer} sent could not be read: {_line(exc)}", uri=uri) from exc
    except _NOT_UNDERSTOOD as exc:
        raise Unreachable(f"{uri}: {peer} sent a response that could not be read: {type(exc).__name__}: {_line(exc)}", uri=uri) from exc


def _to_our_error(error: Any, uri: str, peer: str) -> ConvertError:
    message = _line(error.args[0] if error.args else error)
    # An error code is a name, a number, or a number followed by text.
    names = {type(error).__name__, str(error.code or "").partition(":")[0].strip()}
    number = next((text for text in (*names, message) if text.startswith("ODPS-")), "")
    kind: type[ConvertError] = StoreError
    sentence = f"{uri}: {peer} says {message}"
    if names & _ENDED:
        kind, sentence = SessionEnded, f"{uri}: the session has ended: {message}"
    elif names & _CHANGED:
        kind, sentence = InputChanged, f"{uri} has changed since it was planned: {message} Plan again."
    elif names & _ABSENT:
        kind, sentence = NotFound, f"{uri} does not exist: {message}"
    elif names & _NOT_PERMITTED:
        missing = _RIGHT.search(message)
        kind = NotPermitted
        sentence = f"missing {missing[1]} on {missing[2]}, for {uri}" if missing else f"AccessDenied: {uri}: {message}"
    elif names & _REFUSED or number.startswith(_REFUSED_NUMBERS):
        kind, sentence = BadCredentials, f"{uri}: {peer} refused the credentials: {message}"
    elif names & _PASSING or isinstance(error, OSError) or (error.status_code or 500) >= 500 or error.status_code == _TOO_MANY:
        kind, sentence = Unreachable, f"{uri}: failed at {peer}: {message}"
    return kind(sentence, uri=uri)


def _line(message: Any) -> str:
    return " ".join(str(message).split())[:300]
