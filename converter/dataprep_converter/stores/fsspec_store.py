"""Uses fsspec to read schemes that have no store class, such as `ftp://`. Schemes that are read through fsspec can only be sources.

fsspec is one interface to many systems and guarantees little: no exclusive creation, no conditional reads, no order in listings. So this
store refuses writes, and sorts listings itself, folder by folder. A pin is made from the metadata that the system returns, and is checked
again after a file has been read to its end. Only one call is made at a time, because many of fsspec's clients have only one connection.
"""

# The public methods are documented on the classes `Store` and `Input`, in `__init__.py`.
# fsspec's methods that return a URI's options and path begin with an underscore, because file systems are meant to override them.
# ruff: noqa: D102, SLF001

import contextlib
import ftplib
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from threading import Lock
from typing import Any, Final, TypeVar

import fsspec  # type: ignore[import-untyped]  # it ships no types

from dataprep_converter.core.errors import BadCredentials, BadSpec, ConvertError, InputChanged, NotFound, NotPermitted, Unreachable
from dataprep_converter.runtime.retry import retrying
from dataprep_converter.stores import Details, Entry, StoreSettings, scheme_of
from dataprep_converter.stores.ranged import RangedInput
from dataprep_converter.stores.read_only import ReadOnlyStore

_PIECE: Final = 4 << 20
_RECEIVED: Final = 1 << 20
_MARKS: Final = ("ETag", "etag", "checksum", "blob_id", "mtime", "modified", "modify", "LastModified", "last_modified", "created")
"""Keys of a file's metadata that show whether the file has changed. The most reliable key comes first."""
_LOGIN: Final = {"username": "username", "password": "password"}
_LOGIN_REFUSED: Final = ("530", "331", "332")

T = TypeVar("T")
# Any, because fsspec has no types, and each of fsspec's file systems describes files differently.
System = Any
Info = Mapping[str, Any]


class FsspecStore(ReadOnlyStore):
    """fsspec's file systems for one scheme: one file system for each host."""

    def __init__(self, settings: StoreSettings) -> None:
        self.settings = settings
        self._systems: dict[str, System] = {}
        self._turn = Lock()

    def list(self, uri: str, *, recursive: bool = True) -> Iterator[Entry]:
        root = uri.rstrip("/") + "/"
        listings = [self._list_folder(root)]
        while listings:
            item = next(listings[-1], None)
            if item is None:
                listings.pop()
            elif isinstance(item, Entry):
                yield item
            elif recursive:
                listings.append(self._list_folder(item))

    def stat(self, uri: str) -> Entry | None:
        def attempt() -> Entry | None:
            try:
                info = self._ask(uri, lambda system, path: system.info(path))
            except NotFound:
                return None
            return _entry(uri, info) if info.get("type") == "file" else None

        return retrying(attempt, what=f"looking at {uri}")

    def open(self, uri: str) -> "FsspecInput":
        entry = self.stat(uri)
        if entry is None:
            raise NotFound(f"{uri} does not exist.", uri=uri)
        return FsspecInput(entry, self)

    def refusal(self, uri: str) -> BadSpec:
        return BadSpec(
            f"{uri}: dataprep doesn't write to {scheme_of(uri)}://, because fsspec doesn't guarantee that only complete files "
            "appear under their names. Name a folder of another store."
        )

    def read(self, uri: str, start: int, end: int) -> Iterator[bytes]:
        """Yields a range of a file in pieces. Stops early if the file ends before the range does."""
        if scheme_of(uri) == "ftp":
            yield from self._by_ftp(uri, start, end)
            return
        while start < end:
            piece_end = min(end, start + _PIECE)
            data: bytes = self._ask(uri, partial(self.read_range, start=start, end=piece_end))
            yield data
            if len(data) < piece_end - start:
                return
            start = piece_end

    def _by_ftp(self, uri: str, start: int, end: int) -> Iterator[bytes]:
        """Reads a range over a separate connection and then closes it.

        fsspec itself would abort the transfer and reuse its shared connection, but many servers close the connection after an abort.
        """
        with self._border(uri):
            system = self.connect(uri)
        try:
            with self._border(uri):
                system.ftp.voidcmd("TYPE I")
                data = system.ftp.transfercmd(f"RETR {system._strip_protocol(uri)}", rest=start)
            with data:
                while start < end:
                    with self._border(uri):
                        piece = data.recv(min(_RECEIVED, end - start))
                    if not piece:
                        return
                    start += len(piece)
                    yield piece
        finally:
            system.ftp.close()

    def _list_folder(self, folder: str) -> Iterator[Entry | str]:
        """Yields an entry for each file of a folder, and a URI for each subfolder, in the order of complete paths: a-1, a.b, a/b."""

        def attempt() -> list[Info]:
            try:
                return list(self._ask(folder, lambda system, path: system.ls(path, detail=True)))
            except NotFound:
                return []

        infos: dict[str, Info] = {}
        for info in retrying(attempt, what=f"listing {folder}"):
            name = str(info["name"]).rstrip("/").rpartition("/")[2]
            if name:
                infos[f"{name}/" if info.get("type") == "directory" else name] = info
        for name in sorted(infos, key=lambda name: name.encode("utf-8", "surrogateescape")):
            if name.endswith("/"):
                yield folder + name
            elif infos[name].get("type") == "file":
                yield _entry(folder + name, infos[name])

    def _ask(self, uri: str, call: Callable[[System, str], T]) -> T:
        """Returns the result of a call to the URI's file system.

        Translates errors. If a call raises Unreachable, the next call opens a new connection.
        """
        authority = uri.partition("://")[2].partition("/")[0]
        with self._turn:
            try:
                with self._border(uri):
                    if authority not in self._systems:
                        self._systems[authority] = self.connect(uri)
                    system = self._systems[authority]
                    self.refresh(system)
                    return call(system, self.path_of(system, uri))
            except Unreachable:
                # The system's connection may be stuck in the middle of a response.
                self._systems.pop(authority, None)
                raise

    def path_of(self, system: System, uri: str) -> str:
        """Returns the path by which the system addresses a file or folder."""
        path: str = system._strip_protocol(uri)
        return path

    def refresh(self, system: System) -> None:
        """Clears the file system's cache, so that the next call queries the server."""
        system.invalidate_cache()

    def read_range(self, system: System, path: str, start: int, end: int) -> bytes:
        """Returns a range of a file, or fewer bytes at the file's end."""
        data: bytes = system.cat_file(path, start=start, end=end)
        return data

    def to_our_error(self, error: Exception, uri: str) -> ConvertError:
        """Translates an error raised by a file system."""
        return translated(error, uri)

    @contextlib.contextmanager
    def _border(self, uri: str) -> Iterator[None]:
        """Wraps every fsspec call and translates its errors."""
        try:
            yield
        except ConvertError:
            raise
        except Exception as exc:  # each of fsspec's file systems raises its own undocumented errors
            raise self.to_our_error(exc, uri) from exc

    def connect(self, uri: str) -> System:
        """Returns a new file system for the URI's host."""
        scheme, authority = scheme_of(uri), uri.partition("://")[2].partition("/")[0]
        if "@" in authority:
            raise BadSpec(
                f"{scheme}://{authority.rpartition('@')[2]}/…: a URI must not contain a user and a password. Put them "
                f"into a Secret referenced in spec.stores, or into FSSPEC_{scheme.upper()}_USERNAME and FSSPEC_{scheme.upper()}_PASSWORD."
            )
        system = fsspec.get_filesystem_class(scheme)
        options = {name: value for name, value in system._get_kwargs_from_urls(uri).items() if name not in ("path", "protocol")}
        login = {_LOGIN[key]: value for key, value in self.settings.credentials.items() if key in _LOGIN}
        if self.settings.anonymous:
            # Otherwise fsspec would take the user and the password from its environment variables.
            login = {"username": "anonymous", "password": ""}
        elif self.settings.user is not None:
            login["username"] = self.settings.user
        return system(**options, **login, skip_instance_cache=True, use_listings_cache=False)


class FsspecInput(RangedInput):
    """Ranges of one file, each read with a separate request."""

    step = _PIECE

    def __init__(self, entry: Entry, store: FsspecStore) -> None:
        super().__init__(entry)
        self._store = store

    def read_at(self, offset: int, length: int) -> bytes:
        end = offset + max(0, min(length, self.size - offset))
        return retrying(lambda: self._range(offset, end), what=f"reading {self.uri}") if end > offset else b""

    def _pieces(self, offset: int, end: int) -> Iterator[bytes]:
        for piece in self._store.read(self.uri, offset, end):
            offset += len(piece)
            if offset == self.size:
                self._check()
            yield piece
        if offset < end:
            self._check()
            raise Unreachable(f"{self.uri} ended at byte {offset} instead of {end}.", uri=self.uri)

    def _range(self, start: int, end: int) -> bytes:
        return b"".join(self._pieces(start, end))

    def _check(self) -> None:
        """Raises InputChanged if the file has changed since it was opened."""
        now = self._store.stat(self.uri)
        if now is None or now.pin != self._entry.pin:
            raise InputChanged(f"{self.uri} was replaced while it was being read.", uri=self.uri)


def _entry(uri: str, info: Info) -> Entry:
    size = info.get("size")
    if not isinstance(size, int):
        raise BadSpec(
            f"{uri}: the server doesn't report the file's size, so the file can't be read in parts; copy the file to a store.", uri=uri
        )
    mark = next((str(info[name]) for name in _MARKS if info.get(name)), "")
    return Entry(uri=uri, size=size, pin=f"{size}-{mark}", details=Details(modified=0.0))


def translated(error: Exception, uri: str) -> ConvertError:
    """Translates an error raised by one of fsspec's file systems."""
    scheme = scheme_of(uri)
    message = " ".join(str(error).split()) or type(error).__name__
    if isinstance(error, ImportError):
        return BadSpec(f"{scheme}:// is read through fsspec, whose client for this scheme isn't installed: {message}.", uri=uri)
    if isinstance(error, ftplib.error_perm) and message.startswith(_LOGIN_REFUSED):
        return BadCredentials(f"{scheme}://{uri.partition('://')[2].partition('/')[0]} refuses the login: {message}.", uri=uri)
    if isinstance(error, FileNotFoundError | NotADirectoryError):
        return NotFound(f"{uri} does not exist.", uri=uri)
    if isinstance(error, PermissionError | ftplib.error_perm):
        return NotPermitted(f"Reading {uri} isn't permitted: {message}.", uri=uri)
    if isinstance(error, TypeError) and "required" in message:
        return BadSpec(f"{uri}: fsspec needs more than an address ({message}): set FSSPEC_{scheme.upper()}_… variables.", uri=uri)
    if isinstance(error, TypeError | ValueError):
        return BadSpec(f"{uri} is not an address that fsspec can open: {message}.", uri=uri)
    return Unreachable(f"{uri} can't be read: {type(error).__name__}: {message}.", uri=uri)
