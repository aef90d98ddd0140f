"""Indexes: where each record of a shard lies, so that a reader can begin anywhere. Written as the shard is, line by line.

    tfrecord            <offset> <size>\\n        DALI's `.idx`, vahidk's `.tfindex`; the size includes the frame
    recordioProtobuf    <number>\\t<offset>\\n     MXNet's `.idx`

A compressed shard has none: nobody can begin within it.
"""

import hashlib
import tempfile
from collections.abc import Mapping
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

from dataprep_api.report import IndexFile
from dataprep_api.spec import HdfsOptions, Output
from dataprep_converter.access import Store
from dataprep_converter.compression import Plain
from dataprep_converter.encoders import encoder_class
from dataprep_converter.kernel import number_lines
from dataprep_converter.publishing import publish

Numbers: TypeAlias = npt.NDArray[np.int64]

_LINES: Final[Mapping[str, tuple[str, str, str]]] = {
    "tfrecord": ("offset", " ", "size"),
    "recordioProtobuf": ("number", "\t", "offset"),
}
"""Format → what stands in a line."""
_IN_MEMORY: Final = 1 << 20
_PIECE: Final = 4 << 20
_TOGETHER: Final = 4096
"""Records whose lines are written at once, at least."""


def has_index(output: Output) -> bool:
    """Whether the shards of an output get one."""
    return output.index and output.format in _LINES and encoder_class(output.format).compressor(output).name == Plain.name


class RecordIndex:
    """The lines of one shard: in memory while they are few, then in a temporary file without a name."""

    def __init__(self, format_: str) -> None:
        self._line = _LINES[format_]
        self._file = tempfile.SpooledTemporaryFile(max_size=_IN_MEMORY, prefix="dataprep-")  # noqa: SIM115 - closed by `close`
        self._records = 0
        self._offset = 0
        self._waiting: list[Numbers] = []

    def add(self, sizes: Numbers) -> None:
        """The next records, which have these sizes in the file."""
        self._waiting.append(sizes)
        if sum(map(len, self._waiting)) >= _TOGETHER:
            self._write()

    def put(self, store: Store, uri: str, *, file: str, hdfs: HdfsOptions) -> IndexFile:
        """Writes the lines to `uri`, streaming, or finds that another attempt has."""
        upload = store.create(uri, hdfs=hdfs)
        digest = hashlib.sha256()
        size = 0
        try:
            self._write()
            self._file.seek(0)
            while piece := self._file.read(_PIECE):
                upload.write(piece)
                digest.update(piece)
                size += len(piece)
            entry = publish(upload, store, uri, size=size, sha256=digest.hexdigest())
        except BaseException:
            upload.abort()
            raise
        return IndexFile(file=file, size=size, sha256=digest.hexdigest(), pin=entry.pin)

    def close(self) -> None:
        """Drops the lines."""
        self._file.close()

    def _write(self) -> None:
        """The lines of the records that wait: batches of few large ones are written together."""
        sizes = np.concatenate([*self._waiting, np.empty(0, np.int64)])
        self._waiting = []
        columns = {
            "number": np.arange(self._records, self._records + len(sizes)),
            "offset": self._offset + np.cumsum(sizes) - sizes,
            "size": sizes,
        }
        if len(sizes):
            first, between, second = self._line
            self._file.write(number_lines(columns[first], between, columns[second]))
        self._records += len(sizes)
        self._offset += int(sizes.sum())
