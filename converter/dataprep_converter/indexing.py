"""Indexes: where each record of a shard lies, so that a reader can begin anywhere. Written as the shard is, line by line.

    tfrecord            <offset> <size>\\n        DALI's `.idx`, vahidk's `.tfindex`; the size includes the frame
    recordioProtobuf    <number>\\t<offset>\\n     MXNet's `.idx`

A compressed shard has none: nobody can begin within it.
"""

import hashlib
import tempfile
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dataprep_api.report import IndexFile
from dataprep_api.spec import HdfsOptions, Output
from dataprep_converter.access import Store
from dataprep_converter.compression import Plain
from dataprep_converter.encoders import encoder_class
from dataprep_converter.publishing import publish
from dataprep_converter.tensors import Array, binary_data, kernels

Numbers: TypeAlias = npt.NDArray[np.int64]

_IN_MEMORY: Final = 1 << 20
_PIECE: Final = 4 << 20


def _offsets_and_sizes(_numbers: Numbers, offsets: Numbers, sizes: Numbers) -> Array:
    return _lines(offsets, " ", sizes)


def _numbers_and_offsets(numbers: Numbers, offsets: Numbers, _sizes: Numbers) -> Array:
    return _lines(numbers, "\t", offsets)


LINES: Final[Mapping[str, Callable[[Numbers, Numbers, Numbers], Array]]] = {
    "tfrecord": _offsets_and_sizes,
    "recordioProtobuf": _numbers_and_offsets,
}
"""Format → the lines of records with these numbers, offsets and sizes."""


def has_index(output: Output) -> bool:
    """Whether the shards of an output get one."""
    return output.index and output.format in LINES and encoder_class(output.format).compressor(output).name == Plain.name


class RecordIndex:
    """The lines of one shard: in memory while they are few, then in a temporary file without a name."""

    def __init__(self, format_: str) -> None:
        self._lines = LINES[format_]
        self._file = tempfile.SpooledTemporaryFile(max_size=_IN_MEMORY, prefix="dataprep-")  # noqa: SIM115 - closed by `close`
        self._digest = hashlib.sha256()
        self._size = 0
        self._records = 0
        self._offset = 0

    def add(self, sizes: Numbers) -> None:
        """The next records, which have these sizes in the file."""
        ends = self._offset + np.cumsum(sizes)
        numbers = np.arange(self._records, self._records + len(sizes))
        data, bounds = binary_data(self._lines(numbers, ends - sizes, sizes))
        written = data[bounds[0] : bounds[-1]].tobytes()
        self._file.write(written)
        self._digest.update(written)
        self._size += len(written)
        self._records += len(sizes)
        self._offset += int(sizes.sum())

    def put(self, store: Store, uri: str, *, file: str, hdfs: HdfsOptions) -> IndexFile:
        """Writes the lines to `uri`, streaming, or finds that another attempt has."""
        upload = store.create(uri, hdfs=hdfs)
        try:
            self._file.seek(0)
            while piece := self._file.read(_PIECE):
                upload.write(piece)
            entry = publish(upload, store, uri, size=self._size, sha256=self._digest.hexdigest())
        except BaseException:
            upload.abort()
            raise
        return IndexFile(file=file, size=self._size, sha256=self._digest.hexdigest(), pin=entry.pin)

    def close(self) -> None:
        """Drops the lines."""
        self._file.close()


def _lines(first: Numbers, between: str, second: Numbers) -> Array:
    texts: list[Any] = [pa.array(values).cast(pa.large_string()) for values in (first, second)]
    nothing, separator, end = (pa.scalar(text, pa.large_string()) for text in ("", between, "\n"))
    lines: Array = kernels.binary_join_element_wise(texts[0], separator, texts[1], end, nothing)
    return lines
