"""Access: the store behind a URI, with the settings of the longest matching prefix. One per process."""

from collections.abc import Sequence

from dataprep_api.shown import has_user
from dataprep_converter.archive_uris import divided
from dataprep_converter.errors import BadSpec
from dataprep_converter.stores import Entry, Input, Store, StoreSettings, Upload, scheme_of, store_class

__all__ = ["Access", "Entry", "Input", "Store", "Upload"]


class Access:
    """Stores by URI. Clients are made on first use and kept for this process.

    `settings` is picklable, so a process pool's initialiser makes its own Access from it.
    """

    def __init__(self, settings: Sequence[StoreSettings] = ()) -> None:
        self.settings = tuple(sorted(settings, key=lambda s: len(s.uri_prefix), reverse=True))
        self._clients: dict[tuple[str, str], Store] = {}
        self.output: str | None = None
        """Folder that the job of this process makes, once that is known: no input may lie in it."""
        self.hidden: dict[str, int] = {}
        """Inputs that a listing has come to the end of, and how many files it has passed over there because their names begin with `_` or `.`."""
        self.passed_over: dict[str, int] = {}
        """Data sets below the inputs that a listing has left out, and how many files each has there."""

    def store(self, uri: str) -> Store:
        """The client for `uri`; for a member of an archive (`photos.zip!/1.jpg`) a read-only one. Raises BadSpec where there is none."""
        if "\0" in uri:
            raise BadSpec(f"{uri!r} has a NUL character in it, which no store takes.", uri=uri)
        if has_user(uri):
            raise BadSpec(f"{uri} holds a user or a key: credentials come from an entry of stores or from the environment.")
        if divided(uri) is not None:
            return self._within_archives()
        scheme = scheme_of(uri)
        found = self._found(uri)
        key = (scheme, found.uri_prefix if found is not None else "")
        if key not in self._clients:
            self._clients[key] = store_class(scheme)(found or _defaults(scheme))
        return self._clients[key]

    def settings_of(self, uri: str) -> StoreSettings:
        """The settings of the longest prefix of `uri`, or those of its scheme."""
        return self._found(uri) or _defaults(scheme_of(uri))

    def fresh(self, uri: str) -> Store:
        """A new client for `uri`, replacing the kept one: after a failed write to HDFS the old client may hang."""
        scheme = scheme_of(uri)
        for key in [key for key in self._clients if key[0] == scheme]:
            del self._clients[key]
        return self.store(uri)

    def _found(self, uri: str) -> StoreSettings | None:
        return next((s for s in self.settings if uri.startswith(s.uri_prefix)), None) if self.settings else None

    def _within_archives(self) -> Store:
        key = ("", "!")
        if key not in self._clients:
            # It is made of what imports this module.
            from dataprep_converter.archives import ArchiveStore

            self._clients[key] = ArchiveStore(self)
        return self._clients[key]


def _defaults(scheme: str) -> StoreSettings:
    return StoreSettings(uri_prefix=f"{scheme}://" if scheme else "")
