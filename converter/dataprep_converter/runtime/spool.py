"""Spooling: bytes in a temporary file without a name (in $TMPDIR), until what stands before them is known."""

import tempfile
import weakref
from collections.abc import Iterator
from typing import Final

_IN_MEMORY: Final = 4 << 20
_PIECE: Final = 4 << 20


class Spool:
    """Written once, then read once. Little stays in memory, more goes to a file, which is gone with this object."""

    def __init__(self) -> None:
        self._file = tempfile.SpooledTemporaryFile(max_size=_IN_MEMORY, prefix="dataprep-")  # noqa: SIM115 - closed by `drop`, at the latest with this object
        self.drop = weakref.finalize(self, self._file.close)
        """Ends it early."""
        self.size = 0

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Some more bytes."""
        self._file.write(data)
        self.size += len(data)

    def pieces(self) -> Iterator[bytes]:
        """All of them; then they are gone."""
        self._file.seek(0)
        while piece := self._file.read(_PIECE):
            yield piece
        self.drop()
