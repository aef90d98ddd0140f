"""Quarantine: writes the bad records of one shard to a file of JSON lines beside the data set, so that the user can repair them.

    {"raw": "<base64>", "reason": "…", "row": 17, "uri": "/data/a.csv"}

`raw` is null if only the record's position is known. If a line has `size`, the record has that many bytes, and `raw` is only its beginning.
"""

import base64
import hashlib
from collections.abc import Iterator
from typing import Any, Final

from dataprep_api import canonical
from dataprep_api.dataset.messages import BadRecord
from dataprep_api.spec import HdfsOptions
from dataprep_converter.records.batch import Raw
from dataprep_converter.runtime.temporary import TemporaryFile
from dataprep_converter.stores import Store
from dataprep_converter.stores.publish import write_file

_IN_MEMORY: Final = 1 << 20


class Quarantine:
    """The lines of one shard. A few lines are kept in memory; larger amounts are kept in an anonymous temporary file."""

    def __init__(self) -> None:
        self._file = TemporaryFile("bad records", in_memory=_IN_MEMORY)

    @property
    def size(self) -> int:
        """Total size of the lines in bytes."""
        return self._file.size

    def add(self, record: BadRecord, raw: Raw | None) -> None:
        """Adds the line of a bad record."""
        line: dict[str, Any] = {"uri": record.uri, "row": record.row, "reason": record.reason, "raw": None}
        if raw is not None:
            line["raw"] = base64.b64encode(raw.content).decode()
            if raw.size > len(raw.content):
                line["size"] = raw.size
        self._file.write(canonical.dumps(line) + b"\n")

    def put(self, store: Store, uri: str, *, hdfs: HdfsOptions) -> str:
        """Streams the lines to `uri` and returns their SHA-256.

        An existing file is replaced, because every attempt writes the same bytes.
        """
        digest = hashlib.sha256()

        def pieces() -> Iterator[bytes]:
            for piece in self._file.pieces():
                digest.update(piece)
                yield piece

        write_file(store, uri, pieces(), hdfs=hdfs)
        return digest.hexdigest()

    def close(self) -> None:
        """Discards the lines."""
        self._file.close()
