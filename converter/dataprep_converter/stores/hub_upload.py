"""Uploads to a working branch on the Hub. The bytes are collected in $TMPDIR, because the Hub needs their digest before it accepts them."""

# The public methods are documented on the class `Upload`, in `__init__.py`.
# ruff: noqa: D102

import contextlib
import tempfile
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

from dataprep_converter.core.errors import StoreError
from dataprep_converter.runtime.temporary import room_for
from dataprep_converter.stores import Entry
from dataprep_converter.stores.hub_branch import Change, WorkingBranch


class HubUpload:
    """An upload of one file. It is discarded if another run has written OWNER since the upload began."""

    blocks = True

    def __init__(self, uri: str, branch: WorkingBranch, border: Callable[[str], AbstractContextManager[None]]) -> None:
        self._uri = uri
        self._branch = branch
        self._border = border
        with border(uri):
            self._owner = branch.owner()
        self._file = tempfile.NamedTemporaryFile(prefix="dataprep-hub-", delete=False)  # noqa: SIM115 - removed by `_end`
        self._staged: Change | None = None

    def write(self, data: bytes | bytearray | memoryview) -> None:
        with room_for(self._uri):
            self._file.write(data)

    def stage(self) -> None:
        with room_for(self._uri):
            self._file.close()
        change = self._change(replace=True)
        with self._border(self._uri):
            self._branch.send_content(change)
        self._staged = change

    def commit(self, *, replace: bool) -> Entry:
        if self._staged is None:
            self.stage()
        change = self._change(replace=replace)
        # Don't send the content again unless this commit fails.
        change.operation, self._staged = self._staged.operation if self._staged is not None else None, None
        (entry,) = self._branch.change([change])
        if entry is None:
            raise StoreError(f"{self._uri} is missing although it has just been written.", uri=self._uri)
        self._end()
        return entry

    def abort(self) -> None:
        self._end()

    def _change(self, *, replace: bool) -> Change:
        path = self._branch.folder.path_of(self._uri)
        return Change(self._uri, path, self._file.name, replace=replace, owner=self._owner, is_fenced=True)

    def _end(self) -> None:
        with contextlib.suppress(OSError):
            self._file.close()
        with contextlib.suppress(OSError):
            Path(self._file.name).unlink()
