"""Decoder for `mds`. Derives the columns from the manifest's features, and refuses a shard whose header lists other columns."""

import json
import math
from collections.abc import Iterable, Iterator
from functools import cache
from typing import Any

import numpy as np

from dataprep_api.dataset.report import Manifest
from dataprep_api.spec.formats.mds import MdsOptions
from dataprep_converter.core.errors import BrokenRecord
from dataprep_converter.formats.decompression import decompressed
from dataprep_converter.formats.flat_values import flat, narrowed
from dataprep_converter.formats.mds.mds_encoder import Column, algorithm, columns, config
from dataprep_converter.formats.pieces import Pieces
from dataprep_converter.records.feature import FeatureSpec


class MdsDecoder:
    """Decodes each record to its bytes."""

    def __init__(self, manifest: Manifest) -> None:
        features = [FeatureSpec(**{**feature, "shape": tuple(feature["shape"])}) for feature in manifest.features]
        options = MdsOptions.model_validate(manifest.content["output"].get("mds", {}))
        self._columns = columns(features, options)
        self._config = json.dumps(config(self._columns, algorithm(options)), sort_keys=True).encode()
        self._compression = manifest.compression

    def read(self, pieces: Iterable[bytes]) -> Iterator[tuple[int, bytes]]:
        """Yield the records. The format has no CRC, so only the file's digest reveals a flipped bit in a record."""
        source = Pieces(decompressed(pieces, self._compression))
        count = int.from_bytes(_take_exactly(source, 4, "the number of records"), "little")
        offsets = np.frombuffer(_take_exactly(source, 4 * (count + 1), f"the offsets of {count:,} records"), "<u4").astype(np.int64)
        if _take_exactly(source, len(self._config), "the columns") != self._config:
            raise BrokenRecord("the columns are not those of the manifest", offset=source.offset - len(self._config))
        if offsets[0] != source.offset:
            raise BrokenRecord(f"the first offset in the offset table is wrong: {offsets[0]}", offset=4)
        backwards = np.flatnonzero(np.diff(offsets) < 0)
        if len(backwards):
            raise BrokenRecord(
                f"according to the offset table, record {backwards[0]} ends before it begins", offset=4 * int(backwards[0]) + 8
            )
        for begin, end in zip(offsets[:-1].tolist(), offsets[1:].tolist(), strict=True):
            record = _take_exactly(source, end - begin, "a record")
            self._split_record(record, begin)
            yield begin, record
        if source.take(1):
            raise BrokenRecord("bytes after the last record", offset=int(offsets[-1]))

    def parse(self, record: bytes) -> dict[str, Any]:
        """Return the values, keyed by feature."""
        return {
            column.feature.name: _values(content, column)
            for column, content in zip(self._columns, self._split_record(record, 0), strict=True)
        }

    def _split_record(self, record: bytes, offset: int) -> list[bytes]:
        """Return the contents of the columns. Raises BrokenRecord if the contents' sizes don't add up to the record's size."""
        at = 4 * sum(column.size is None for column in self._columns)
        varying = iter(np.frombuffer(record[:at], "<u4").tolist() if len(record) >= at else ())
        sizes = [next(varying, -1) if column.size is None else column.size for column in self._columns]
        if at + sum(sizes) != len(record) or -1 in sizes:
            raise BrokenRecord(f"the columns' sizes don't add up to the record's {len(record)} bytes", offset=offset)
        contents: list[bytes] = []
        for size in sizes:
            contents.append(record[at : at + size])
            at += size
        return contents


def _values(content: bytes, column: Column) -> list[Any]:
    """Return a column's values as flat lists, like `Decoder.parse`. Raises BrokenRecord for content that the encoder can't have written."""
    kind, _, rest = column.encoding.partition(":")
    try:
        if kind in ("str", "bytes", "jpeg", "png") or (kind == "json" and not column.feature.shape):
            return [content]
        if kind == "json":
            return narrowed(flat(json.loads(content), steps=column.feature.sequence), column.feature.dtype)
        dtype = _dtype(rest.partition(":")[0] if kind == "ndarray" else "int64" if kind == "int" else kind)
        if kind != "ndarray" or column.size is not None:
            return narrowed(np.frombuffer(content, dtype).tolist(), column.feature.dtype)
        width = 1 << (content[0] & 3)
        end = 1 + (content[0] >> 2) * width
        shape = np.frombuffer(content[1:end], f"<u{width}").tolist()
        values = np.frombuffer(content[end:], dtype)
        if math.prod(shape) != len(values):
            raise ValueError(f"{len(values)} numbers for the shape {shape}")
    except (ValueError, IndexError, RecursionError) as exc:
        raise BrokenRecord(f"the content of {column.feature.name!r} isn't valid {column.encoding}: {exc}", offset=0) from exc
    steps: list[Any] = values.reshape(shape[0], -1).tolist() if column.feature.sequence and shape[0] else values.tolist()
    return narrowed(steps, column.feature.dtype)


@cache
def _dtype(name: str) -> np.dtype[Any]:
    return np.dtype(name).newbyteorder("<")


def _take_exactly(source: Pieces, size: int, part: str) -> bytes:
    offset = source.offset
    data = source.take(size)
    if len(data) < size:
        raise BrokenRecord(f"the file ends within {part}: {len(data):,} of {size:,} bytes", offset=offset)
    return data
