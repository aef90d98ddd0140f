"""Indexes: where each record of a shard lies, so that a reader can begin anywhere. Written as the shard is, line by line.

    tfrecord            <offset> <size>\\n        DALI's `.idx`, vahidk's `.tfindex`; the size includes the frame
    recordioProtobuf    <number>\\t<offset>\\n     MXNet's `.idx`

A compressed shard has none: nobody can begin within it.
"""

import hashlib
import tempfile
from collections.abc import Mapping
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.csv as pa_csv

from dataprep_api.report import IndexFile
from dataprep_api.spec import HdfsOptions, Output
from dataprep_converter.access import Store
from dataprep_converter.compression import Plain
from dataprep_converter.encoders import encoder_class

Numbers: TypeAlias = npt.NDArray[np.int64]

_csv: Any = pa_csv  # the stubs don't know all options
_LINES: Final[Mapping[str, tuple[tuple[str, str], str]]] = {
    "tfrecord": (("offset", "size"), " "),
    "recordioProtobuf": (("number", "offset"), "\t"),
}
"""Format → what stands in a line, and what between."""
_IN_MEMORY: Final = 1 << 20
_PIECE: Final = 4 << 20
_ROWS: Final = 1 << 16


def has_index(output: Output) -> bool:
    """Whether the shards of an output get one."""
    return output.index and output.format in _LINES and encoder_class(output.format).compressor(output).name == Plain.name


class RecordIndex:
    """The lines of one shard: in memory while they are few, then in a temporary file without a name."""

    def __init__(self, format_: str) -> None:
        self._columns, separator = _LINES[format_]
        self._file = tempfile.SpooledTemporaryFile(max_size=_IN_MEMORY, prefix="dataprep-")  # noqa: SIM115 - closed by `close`
        options = _csv.WriteOptions(include_header=False, delimiter=separator, batch_size=_ROWS)
        self._lines = _csv.CSVWriter(self._file, pa.schema([(name, pa.int64()) for name in self._columns]), write_options=options)
        self._records = 0
        self._offset = 0

    def add(self, sizes: Numbers) -> None:
        """The next records, which have these sizes in the file."""
        columns = {
            "number": np.arange(self._records, self._records + len(sizes)),
            "offset": self._offset + np.cumsum(sizes) - sizes,
            "size": sizes,
        }
        self._lines.write_batch(pa.record_batch({name: columns[name] for name in self._columns}))
        self._records += len(sizes)
        self._offset += int(sizes.sum())

    def put(self, store: Store, uri: str, *, file: str, hdfs: HdfsOptions) -> IndexFile:
        """Writes the lines to `uri`, streaming; equal bytes at any attempt, so an existing file is replaced."""
        upload = store.create(uri, hdfs=hdfs)
        digest = hashlib.sha256()
        size = 0
        try:
            self._file.seek(0)
            while piece := self._file.read(_PIECE):
                upload.write(piece)
                digest.update(piece)
                size += len(piece)
            entry = upload.commit(replace=True)
        except BaseException:
            upload.abort()
            raise
        return IndexFile(file=file, size=size, sha256=digest.hexdigest(), pin=entry.pin)

    def close(self) -> None:
        """Drops the lines."""
        self._file.close()
