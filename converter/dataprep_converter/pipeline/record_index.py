"""Record indexes: the offset of each record in a shard, so that a reader can start anywhere. An index is written together with its shard.

    tfrecord            <offset> <size>\\n        DALI's `.idx`, vahidk's `.tfindex`; the size includes the frame
    recordioProtobuf    <number>\\t<offset>\\n     MXNet's `.idx`

A compressed shard has no index, because it can only be read from its beginning.
"""

import hashlib
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

from dataprep_api.dataset.report import IndexFile
from dataprep_api.spec import HdfsOptions, Output
from dataprep_converter.core.compression import Plain
from dataprep_converter.core.native import number_lines
from dataprep_converter.formats.format import IndexLine
from dataprep_converter.formats.registry import encoder_class, format_of
from dataprep_converter.stores import Store
from dataprep_converter.stores.publish import publish

Numbers: TypeAlias = npt.NDArray[np.int64]

_TOGETHER: Final = 65_536
"""Lines are written as soon as this many are waiting."""


def index_line(output: Output) -> IndexLine | None:
    """Returns the kind of line that an output's indexes contain, or None if the output has no indexes."""
    is_indexed = output.index and encoder_class(output.format).compressor(output).name == Plain.name
    return format_of(output.format).index_line if is_indexed else None


class RecordIndex:
    """The index of one shard, written at the same time as the shard."""

    def __init__(self, line: IndexLine, store: Store, uri: str, *, hdfs: HdfsOptions) -> None:
        """Begins the index. Nothing is visible at `uri` before `publish`."""
        self._line = line
        self._store = store
        self._uri = uri
        self._upload = store.create(uri, hdfs=hdfs)
        self._digest = hashlib.sha256()
        self._size = 0
        self._records = 0
        self._offset = 0
        self._unwritten: list[Numbers] = []

    def add(self, sizes: Numbers) -> None:
        """Adds the next records, given their sizes in the file."""
        self._unwritten.append(sizes)
        if sum(map(len, self._unwritten)) >= _TOGETHER:
            self._write()

    def publish(self, file: str) -> IndexFile:
        """Publishes the index, unless another attempt has already published it. `file` is the path of the index in the output."""
        self._write()
        sha256 = self._digest.hexdigest()
        entry = publish(self._upload, self._store, self._uri, size=self._size, sha256=sha256)
        return IndexFile(file=file, size=self._size, sha256=sha256, pin=entry.pin)

    def abort(self) -> None:
        """Discards the index if it isn't published."""
        self._upload.abort()

    def _write(self) -> None:
        """Writes the lines of all waiting records. Small batches are collected and written together."""
        sizes = np.concatenate([*self._unwritten, np.empty(0, np.int64)])
        self._unwritten = []
        columns = {
            "number": np.arange(self._records, self._records + len(sizes)),
            "offset": self._offset + np.cumsum(sizes) - sizes,
            "size": sizes,
        }
        self._records += len(sizes)
        self._offset += int(sizes.sum())
        lines = number_lines(columns[self._line.first], self._line.between, columns[self._line.second])
        self._size += len(lines)
        self._digest.update(lines)
        if lines:
            self._upload.write(lines)
