"""Encoder for Hadoop's MapFile: a folder with two sequence files.

`data` contains the records, sorted by key, and `index` contains positions in `data`.

    # index: a sequence file with block compression. It has one entry per interval of records in `data`: (key, LongWritable position in
    # `data`).

The position points to the record or, if a sync marker directly precedes the record, to the marker. With block compression, the position
points to the record's block, and the index has at most one entry per block. Given our sync markers, Hadoop's own writer produces the same
bytes for an uncompressed `data`. Source: hadoop-common, MapFile.java.
"""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dataprep_api.dataset.plan import Shard
from dataprep_api.spec import Output
from dataprep_converter.core.arrow_types import is_text
from dataprep_converter.core.errors import BadData
from dataprep_converter.core.native import Lengths
from dataprep_converter.core.tensors import Array, pc
from dataprep_converter.formats.encoder import SingleFile
from dataprep_converter.formats.hadoop.sequence_file_encoder import Blocks, Frames, frames, header, marker
from dataprep_converter.formats.hadoop.writables_encoder import holds_null, pairs
from dataprep_converter.formats.tfrecord.contents import Fixed, Part, Ragged
from dataprep_converter.formats.tfrecord.tfrecord_encoder import TfrecordEncoder
from dataprep_converter.records.feature import DtypeSupport, FeatureSpec

POSITIONS: Final = "org.apache.hadoop.io.LongWritable"
_INDEX: Final = "index"
_DEFAULT_INTERVAL: Final = 128
_SHOWN: Final = 60


class MapFileEncoder(SingleFile):
    """Encodes one MapFile (see the module's docstring). The compressed index is held in memory until `data` is complete."""

    def __init__(self, output: Output, features: Sequence[FeatureSpec]) -> None:
        self._options = output.map_file
        self._pairs = pairs(self._options, features, format_name="mapFile")
        self._interval = self._options.index_interval or (1 if self._options.value == "Record" else _DEFAULT_INTERVAL)
        self._shard: Shard | None = None
        self._seed = 0
        self._records = 0
        self._frames: Frames | None = None
        self._last_key: Array | None = None
        self._last_entry = (-1, -1)
        """The (record, position) pair of the index's last entry."""
        self._index = bytearray()
        self._index_frames: Blocks | None = None

    @staticmethod
    def extension(_output: Output) -> str:
        """Return `map`. The default folder names are Hadoop's own and have no extension."""
        return "map"

    @staticmethod
    def numbers(output: Output) -> DtypeSupport:
        """Numbers keep their types, except in a tf.train.Example."""
        return TfrecordEncoder.numbers(output) if output.map_file.value == "Example" else DtypeSupport()

    @staticmethod
    def holds_null(output: Output, feature: FeatureSpec) -> bool:
        """Return whether the value can hold a null for the feature. The key can't hold nulls."""
        return holds_null(output.map_file, feature)

    def begin(self, shard: Shard, *, seed: int) -> None:
        """Store the shard and the seed, on which the sync markers and the record numbers depend."""
        self._shard, self._seed = shard, seed

    def encode(self, batch: pa.RecordBatch) -> bytes | bytearray | memoryview:
        """Return the bytes of `data` that can now be written. Raises BadData for nulls and for a key that is less than the previous key."""
        head, framed, index = self._start_files()
        rows = batch.num_rows
        if rows == 0:
            return head
        keys = self._keys(batch)
        data, positions = framed.append(keys, self._pairs.value.part(batch))
        entries = self._entries(positions)
        if len(entries):
            index_bytes, _ = index.append(_take_rows(keys, entries), Fixed(positions[entries], np.dtype(">i8")))
            self._index += index_bytes
        self._records += rows
        return b"".join((head, data)) if head else data

    def close(self) -> bytes:
        """Return the last block. A file without records consists of only the header."""
        head, framed, index = self._start_files()
        self._index += index.close()
        return head + framed.close()

    def companions(self) -> Mapping[str, bytes]:
        """Return the file `index`."""
        return {_INDEX: bytes(self._index)}

    def _start_files(self) -> tuple[bytes, Frames, Blocks]:
        """Return the header, and the objects that frame the records of `data` and of `index`.

        The header is empty if it has already been written.
        """
        if self._frames is not None and self._index_frames is not None:
            return b"", self._frames, self._index_frames
        level = self._options.compression_level
        sync = marker(self._shard, seed=self._seed, file=_INDEX)
        self._index += header(self._pairs.key_class, POSITIONS, "Block", sync)
        self._index_frames = Blocks(level=level, sync=sync, begin=len(self._index))
        sync = marker(self._shard, seed=self._seed)
        head = header(self._pairs.key_class, self._pairs.value.java, self._options.compression, sync)
        self._frames = frames(self._options.compression, level=level, sync=sync, begin=len(head))
        return head, self._frames, self._index_frames

    def _keys(self, batch: pa.RecordBatch) -> Part:
        if self._pairs.key is None:
            first = self._records + (self._shard.first if self._shard else 0)
            return Fixed(np.arange(first, first + batch.num_rows), np.dtype(">i8"))
        part = self._pairs.key.part(batch)
        self._check_sorted(batch.column(self._options.key or ""))
        return part

    def _check_sorted(self, column: Array) -> None:
        # Java compares Text and BytesWritable byte by byte, as Arrow compares binary columns.
        keys: Any = column.cast(pa.large_binary()) if is_text(column.type) else column
        with_last = keys if self._last_key is None else pa.concat_arrays([self._last_key, keys])
        less = np.flatnonzero(pc.less(with_last[1:], with_last[:-1]).to_numpy(zero_copy_only=False))
        if len(less):
            row = int(less[0])
            place = self._records + row + (1 if self._last_key is None else 0)
            where = f"{self._shard.file}: " if self._shard else ""
            raise BadData(
                f"{where}the key of record {place}, {_describe_key(with_last[row + 1])}, is less than the previous key, {_describe_key(with_last[row])}, but a MapFile"
                " must be sorted by key. Sort the source by the key and remove shuffle, or remove mapFile.key."
            )
        self._last_key = with_last[-1:]

    def _entries(self, positions: Lengths) -> npt.NDArray[np.int64]:
        """Return the rows of a batch that get an entry in the index.

        Consecutive entries are at least one interval apart, counted in records. With block compression, a block has at most one entry.
        """
        record, position = self._last_entry
        rows = len(positions)
        following = record + self._interval - self._records if record >= 0 else 0
        entry_rows: npt.NDArray[np.int64]
        if self._options.compression != "Block":
            entry_rows = np.arange(following, rows, self._interval)
        else:
            begins = [0, *(np.flatnonzero(np.diff(positions)) + 1).tolist(), rows]
            places: list[int] = []
            for begin, end in pairwise(begins):
                row = max(begin, following)
                if row < end and int(positions[row]) > position:
                    places.append(row)
                    following, position = row + self._interval, int(positions[row])
            entry_rows = np.array(places, np.int64)
        if len(entry_rows):
            self._last_entry = (self._records + int(entry_rows[-1]), int(positions[entry_rows[-1]]))
        return entry_rows


def _take_rows(part: Part, rows: npt.NDArray[np.int64]) -> Part:
    if isinstance(part, Fixed):
        return Fixed(part.values[rows], part.dtype)
    content: Any = part.content
    return Ragged(content=content.take(pa.array(rows)), lengths=part.lengths[rows])


def _describe_key(key: Any) -> str:
    value = key.as_py()
    if isinstance(value, bytes):
        value = value.decode(errors="backslashreplace")
    text = repr(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
