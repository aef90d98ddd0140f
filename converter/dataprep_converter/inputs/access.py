"""Access: the store behind a URI, with the settings of the longest matching prefix. One per process."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from dataprep_api.dataset import run_id
from dataprep_api.shown import has_user
from dataprep_api.spec import Source
from dataprep_api.spec.model import STORED
from dataprep_converter.core.errors import BadSpec
from dataprep_converter.inputs.archive_uris import divided
from dataprep_converter.stores import Store, StoreSettings, scheme_of
from dataprep_converter.stores.registry import store_class

_WEB: Final = ("http://", "https://")


@dataclass
class SkippedFiles:
    """The files below the inputs that listings skip."""

    hidden: dict[str, int] = field(default_factory=dict)
    """By input, once it has been listed to the end: the number of files whose names begin with `_` or `.`."""
    in_data_sets: dict[str, int] = field(default_factory=dict)
    """By URI of a data set below an input: the number of its visible files."""

    def count(self) -> int:
        """The number of all skipped files."""
        return sum(self.hidden.values()) + sum(self.in_data_sets.values())


class Access:
    """Stores by URI. Clients are made on first use and kept for this process.

    `settings` is picklable, so a process pool's initialiser makes its own Access from it.
    """

    def __init__(self, settings: Sequence[StoreSettings] = ()) -> None:
        self.settings = tuple(sorted(settings, key=lambda s: len(s.uri_prefix), reverse=True))
        self._clients: dict[tuple[str, str], Store] = {}
        self._signed: dict[str, str] = {}
        """Web addresses as stored, without signatures, and as signed."""
        self.output: str | None = None
        """The job's output folder, once it is known: no input may be in it."""
        self.skipped = SkippedFiles()
        """What the listings of this job's inputs have skipped."""
        self.parts: Mapping[str, int] | None = None
        """Versions of the rules by which the job's plan is made, as in the plan; None means this release's."""

    def version_of(self, part: str) -> int:
        """The version of a part (`run_id.PARTS`) by which the plan is made."""
        return run_id.PARTS[part].version if self.parts is None else self.parts.get(part, 1)

    def store(self, uri: str) -> Store:
        """The client for `uri`; for a member of an archive (`photos.zip!/1.jpg`) a read-only one. Raises BadSpec if there is none."""
        if "\0" in uri:
            raise BadSpec(f"{uri!r} has a NUL character in it, which no store takes.", uri=uri)
        if has_user(uri):
            raise BadSpec(
                f"…@{uri.rpartition('@')[2]} holds a user or a key: credentials come from an entry of stores or from the environment."
            )
        if divided(uri) is not None:
            return self._within_archives()
        scheme = scheme_of(uri)
        found = self._found(uri)
        key = (scheme, found.uri_prefix if found is not None else "")
        if key not in self._clients:
            self._clients[key] = store_class(scheme)(replace(found or _defaults(scheme), signed=self._signed))
        return self._clients[key]

    def unsigned(self, source: Source) -> Source:
        """The source with its web addresses as they may be stored. Their signatures are kept here, and added again for reading.

        Raises BadSpec if two addresses differ only in their signatures.
        """
        given, stored = (
            source.model_dump(mode="json", by_alias=True, exclude_unset=True, context={STORED: without}) for without in (False, True)
        )
        if given == stored:
            return source
        whole: dict[str, str] = {}
        for text, address in zip(_texts(given), _texts(stored), strict=True):
            if address.startswith(_WEB) and whole.setdefault(address, text) != text:
                raise BadSpec(
                    f"Two addresses of the source are {address} without what signs them or holds a token, so nothing stored could tell them "
                    "apart. Name each file by an address of its own, or copy them to a store."
                )
        self._signed |= {address: text for address, text in whole.items() if address != text}
        return Source.model_validate(stored)

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
            # Here, because most jobs read no archive.
            from dataprep_converter.inputs.archives import ArchiveStore

            self._clients[key] = ArchiveStore(self.store)
        return self._clients[key]


def _texts(value: Any) -> Iterator[str]:  # Any: JSON
    if isinstance(value, str):
        yield value
    for below in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from _texts(below)


def _defaults(scheme: str) -> StoreSettings:
    return StoreSettings(uri_prefix=f"{scheme}://" if scheme else "")
