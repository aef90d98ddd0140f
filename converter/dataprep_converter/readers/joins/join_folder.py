"""The folder of a join. An engine writes the joined rows into this folder, and the engine's driver saves its findings there.

<folder>/<stream>-<range>-<attempt>.arrow    a range of a stream
<folder>/state.json                          the engine's answers to queries, and the files of the complete streams

If the driver dies, the next driver of the same join continues from the saved state.
"""

import base64
import hashlib
import json
import logging
import tempfile
import uuid
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, Final, TypeAlias

from dataprep_api import names
from dataprep_api.spec.model import STORED
from dataprep_converter import __version__
from dataprep_converter.core.errors import ConvertError, NotFound, NotPermitted
from dataprep_converter.inputs.access import Access
from dataprep_converter.readers.joins.open_table import OpenTable
from dataprep_converter.readers.joins.part_reader import PartReader
from dataprep_converter.readers.joins.ranges import RANGE_RECORDS
from dataprep_converter.stores import MovesFiles, Store

logger = logging.getLogger(__name__)

Rows: TypeAlias = list[tuple[Any, ...]]
_STATE: Final = "state.json"
_UNPINNED: Final = ("sql", "table")
"""Sources whose rows may change even if their units don't. So rows of these sources are never taken from an earlier driver."""
_NOT_OF_THE_ROWS: Final = "_signed"
"""The rule that says how to sign addresses. It isn't part of the digest, because signatures are secrets, and the rows don't depend on
signatures."""


class JoinFolder:
    """The folder of a join, in any store."""

    def __init__(self, uri: str, access: Access) -> None:
        self.uri = uri
        self._store = access.store(uri)
        self._answers: dict[str, Rows] = {}
        self._streams: dict[str, Rows] = {}
        self.is_known = self._load()
        """Whether an earlier driver has read all tables without an error. If so, the stored answers describe the tables."""

    def answer(self, query: str) -> Rows | None:
        """The answer to a query, or None if the engine has to be asked."""
        return self._answers.get(query)

    def stream(self, name: str) -> Rows | None:
        """The files of a stream (rows of `ranges.FILES`), or None if the stream hasn't been written completely."""
        return self._streams.get(name)

    def remember(self, query: str, rows: Rows) -> None:
        """Remembers the answer to a query. The next call of `save` stores the answer."""
        self._answers[query] = rows

    def complete(self, stream: str, files: Rows) -> None:
        """Stores the files of a stream that has been written completely."""
        self._streams[stream] = files
        self.save()

    def save(self) -> None:
        """Stores the state."""
        answers = [[query, [list(map(_to_json, row)) for row in rows]] for query, rows in self._answers.items()]
        content = json.dumps({"answers": answers, "streams": self._streams}).encode()
        self._store.put(f"{self.uri}/{_STATE}", content)

    def _load(self) -> bool:
        """Reads the state of an earlier driver, if there is one."""
        with suppress(NotFound):
            try:
                state = json.loads(self._store.get(f"{self.uri}/{_STATE}"))
                self._answers = {query: [tuple(map(_from_json, row)) for row in rows] for query, rows in state["answers"]}
                self._streams = {name: [tuple(file) for file in files] for name, files in state["streams"].items()}
            except (ValueError, KeyError, TypeError) as exc:
                logger.warning("%s/%s is damaged, so the tables are joined from the beginning: %s", self.uri, _STATE, exc)
                self._answers, self._streams = {}, {}
                return False
            logger.info("source.join: an earlier driver has written %d complete streams to %s", len(self._streams), self.uri)
            return True
        return False

    def remove(self) -> None:
        """Removes the folder with all files, including the unfinished files of killed tasks."""
        remove_folder(self.uri, self._store)


def remove_folder(uri: str, store: Store) -> None:
    """Removes a folder that an engine's tasks have written to, including all files. Logs the store's errors."""
    try:
        for entry in list(store.list(uri)):
            store.delete(entry.uri)
        with suppress(NotPermitted):  # a commit warns about the missing permission
            store.sweep(uri)
        if isinstance(store, MovesFiles):
            store.remove_folder(uri)
    except ConvertError as exc:  # only logged, because there may already be another error
        logger.warning("%s can't be removed: %s", uri, exc)


def uri_for(tables: Sequence[OpenTable], output: str | None) -> str:
    """The URI of the folder for the joined rows of these tables. It is below the folder `output` or, if `output` is None, a new folder in
    $TMPDIR."""
    return tempfile.mkdtemp(prefix="dataprep-join-") if output is None else names.join(output, names.join_folder(_digest_of(tables)))


def _digest_of(tables: Sequence[OpenTable]) -> str:
    """The digest of everything that determines the joined rows, in 16 hex digits."""
    hasher = hashlib.sha256()
    for table in tables:
        spec = table.spec.model_dump(mode="json", by_alias=True, exclude_defaults=True, context={STORED: True})
        rules = {name: value for name, value in table.rules.items() if name != _NOT_OF_THE_ROWS}
        reader = PartReader.of(table)
        about = {"release": __version__, "range": RANGE_RECORDS, "table": spec, "keys": reader.keys, "others": reader.others}
        hasher.update(json.dumps(about | {"state": table.state, "rules": rules}, sort_keys=True, default=_plain).encode())
        hasher.update(hashlib.sha256(reader.units).digest())
        if table.spec.source.kind in _UNPINNED:
            hasher.update(uuid.uuid4().bytes)
    return hasher.hexdigest()[:16]


def _plain(value: Any) -> Any:
    """Converts a value in a rule to a JSON value that is the same in each process."""
    if isinstance(value, frozenset | set):
        return sorted(value)
    if isinstance(value, Mapping):
        return dict(value)
    return {name: _plain(field) for name, field in vars(value).items()} if hasattr(value, "__dict__") else repr(value)


def _to_json(value: Any) -> Any:
    return {"bytes": base64.b64encode(value).decode()} if isinstance(value, bytes) else value


def _from_json(value: Any) -> Any:
    return base64.b64decode(value["bytes"]) if isinstance(value, dict) else value
