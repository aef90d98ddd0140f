"""Starts the fake on a thread, and controls it."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Self

import pyarrow as pa

from storeservers.odps.server import SERVICE, Controls, OdpsServer
from storeservers.odps.signatures import AccessKey
from storeservers.odps.warehouse import Part, Rows, Table, Upload, Warehouse


class FakeMaxCompute:
    """A fake of MaxCompute, for use in a `with` statement. Its tables are in memory only."""

    def __init__(self, *, access_id: str = "test-access-id", secret: str = "test-secret-key") -> None:  # noqa: S107  # protects nothing but test data
        self.access_id = access_id
        self.secret = secret
        self.controls = Controls(keys={access_id: AccessKey(access_id, secret)})
        self._warehouse = Warehouse()
        self._server = OdpsServer(self._warehouse, self.controls)
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    @property
    def endpoint(self) -> str:
        """The service's endpoint. Clients ask the service for the tunnel's endpoint."""
        return f"http://{self._server.address}{SERVICE}"

    @property
    def tunnel_endpoint(self) -> str:
        """The tunnel's endpoint."""
        return f"http://{self._server.address}"

    # --- tables ----------------------------------------------------------------------------------------------------

    def make(self, name: str, columns: Mapping[str, str], schema: pa.Schema, *, keys: Sequence[str] = (), project: str = "p") -> None:
        """Creates an empty table. `columns` contains MaxCompute types, and `schema` contains the matching Arrow types."""
        table = Table(dict(columns), schema, list(keys))
        self._warehouse.tables[project, name] = table
        if not keys:
            table.parts[""] = Part(Rows(0, lambda *_: schema.empty_table(), schema), self._warehouse.now())

    def fill(self, name: str, rows: Rows, *, partition: str = "", project: str = "p") -> None:
        """Replaces the rows of a table or of a partition."""
        table = self._warehouse.tables[project, name]
        if partition not in table.parts:
            table.parts[partition] = Part(rows, self._warehouse.now())
        part = table.parts[partition]
        part.rows, part.modified = rows, self._warehouse.now()

    def reorder(self, name: str, rows: Rows, *, project: str = "p") -> None:
        """Replaces the rows without updating the modification time."""
        self._warehouse.tables[project, name].parts[""].rows = rows

    def drop(self, name: str, *, project: str = "p") -> None:
        del self._warehouse.tables[project, name]

    def rows(self, name: str, *, partition: str = "", project: str = "p") -> pa.Table:
        """Return the rows as a reader sees them."""
        part = self._warehouse.tables[project, name].parts[partition]
        return part.rows.at(0, part.rows.count)

    # --- sessions --------------------------------------------------------------------------------------------------

    def end_sessions(self) -> None:
        """Expires all sessions, as the service does after a day."""
        for download in self._warehouse.downloads.values():
            download.ended = True
        for upload in self._warehouse.uploads.values():
            upload.status = "EXPIRED" if upload.status == "NORMAL" else upload.status

    def forget_sessions(self) -> None:
        """Forgets all sessions, as the service does some time after they expire."""
        self._warehouse.downloads.clear()
        self._warehouse.uploads.clear()

    @property
    def sessions(self) -> int:
        """Download sessions that have not been forgotten."""
        return len(self._warehouse.downloads)

    def uploads(self) -> list[Upload]:
        return list(self._warehouse.uploads.values())

    def sent_blocks(self) -> list[int]:
        """The numbers of all received blocks, in order of arrival."""
        return [int(query["blockid"]) for method, _, query in list(self.controls.log) if method == "PUT" and "blockid" in query]

    def asked_ranges(self) -> list[tuple[int, int]]:
        """(start, count) of every request for rows."""
        found = [query["rowrange"].strip("()").split(",") for _, _, query in list(self.controls.log) if "rowrange" in query]
        return [(int(start), int(count)) for start, count in found]
