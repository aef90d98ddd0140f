"""Encoder for MosaicML Streaming's MDS shards. Batches are encoded into a temporary file, because the offset table precedes the records.

    # A shard:   uint32 records | uint32 offset of each record, and of the end | columns as JSON | records       (little-endian)
    # A record:  uint32 size of each column whose size varies | contents of all columns, sorted by the bytes of their names

The JSON is also in the split's `index.json` (`dataset/sidecars/mds_index.py`). The library has these encodings, with these contents:

    # int (int64), uint8 … float64     the number              ndarray:<dtype>:<shape>     the numbers of a tensor, row-major
    # str, bytes, jpeg, png            the unchanged bytes     ndarray:<dtype>             ndim << 2 | n, the shape in uint<8 << n>, numbers
    # json                             lists of text, and lists of lists of any length

Source: mosaicml/streaming, streaming/base/format/mds. Offsets are uint32, so a shard is smaller than 4 GiB.
"""

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from types import TracebackType
from typing import Any, Final

import numpy as np
import pyarrow as pa

from dataprep_api.spec import Output
from dataprep_api.spec.formats.mds import MdsOptions
from dataprep_converter.core.compression import Compressor, GzipMembers, Plain, ZstdFrame
from dataprep_converter.core.errors import BadData, BadSpec
from dataprep_converter.core.native import Lengths, join
from dataprep_converter.core.tensors import Array, binary, binary_data, to_numpy
from dataprep_converter.formats.archives import payloads
from dataprep_converter.formats.encoder import SingleFile
from dataprep_converter.formats.tfrecord.contents import Fixed, Part, Ragged, even_offsets, look_up
from dataprep_converter.records.feature import FeatureSpec
from dataprep_converter.runtime.temporary import IN_MEMORY, TemporaryFile

LARGEST: Final = (1 << 32) - 1
HASHES: Final = ["sha256"]
"""The hashes in index.json. Each shard's SHA-256 is computed anyway, and the library can check it."""
_IMAGE: Final = "/encoded"
"""Features whose names end with this suffix hold image files. The library opens any image type under the encoding `jpeg`."""
_LEVELS: Final = {"Zstd": 3, "Gzip": 6}


@dataclass(frozen=True)
class Column:
    """Describes how one feature is stored."""

    feature: FeatureSpec
    encoding: str
    size: int | None
    """The size of the column's content in bytes, if all records have the same size."""


def columns(features: Sequence[FeatureSpec], options: MdsOptions) -> list[Column]:
    """Return the columns in the order in which they are stored. Raises BadSpec for options that don't fit the features."""
    encodings = options.encodings or {}
    for name in encodings:
        feature = next((feature for feature in features if feature.name == name), None)
        if feature is None or feature.dtype != "bytes":
            names = [feature.name for feature in features if feature.dtype == "bytes"]
            raise BadSpec(
                f"output.mds.encodings: {name!r} isn't a feature of text or bytes; those features are {', '.join(names) or 'none'}."
            )
        if feature.shape and encodings[name] != "json":
            raise BadSpec(f"output.mds.encodings: {name!r} has several values, so its encoding must be json, not {encodings[name]}.")
    return [_column(feature, encodings.get(feature.name)) for feature in sorted(features, key=lambda feature: feature.name.encode())]


def _column(feature: FeatureSpec, encoding: str | None) -> Column:
    if feature.dtype == "bytes":
        own = "json" if feature.shape else "str" if feature.text else "jpeg" if feature.name.endswith(_IMAGE) else "bytes"
        return Column(feature, encoding or own, None)
    # The library has no boolean encoding.
    dtype = "uint8" if feature.dtype == "bool" else feature.dtype
    if feature.shape.count(-1) > 1:
        return Column(feature, "json", None)
    if -1 in feature.shape:
        return Column(feature, f"ndarray:{dtype}", None)
    size = math.prod(feature.shape) * np.dtype(dtype).itemsize
    if feature.shape:
        return Column(feature, f"ndarray:{dtype}:{','.join(map(str, feature.shape))}", size)
    return Column(feature, "int" if dtype == "int64" else dtype, size)


def config(shard_columns: Sequence[Column], compression: str | None = None) -> dict[str, Any]:
    """Return the description of the columns. The description is stored in the header of each shard and in the index.

    `compression` is in the library's notation, such as `zstd:3`.
    """
    return {
        "column_encodings": [column.encoding for column in shard_columns],
        "column_names": [column.feature.name for column in shard_columns],
        "column_sizes": [column.size for column in shard_columns],
        "compression": compression,
        "format": "mds",
        "hashes": HASHES,
        "size_limit": None,
        "version": 2,
    }


def algorithm(options: MdsOptions) -> str | None:
    """Return the library's name for the compression and its level, such as `zstd:3`."""
    names = {"Zstd": "zstd", "Gzip": "gz"}
    return f"{names[options.compression]}:{_LEVELS[options.compression]}" if options.compression != "None" else None


class MdsEncoder(SingleFile):
    """Encodes one shard (see the module's docstring).

    The encoder holds the records' lengths in memory, and the records themselves in a temporary file.
    """

    def __init__(self, output: Output, features: Sequence[FeatureSpec]) -> None:
        self._columns = columns(features, output.mds)
        self._config = json.dumps(config(self._columns, algorithm(output.mds)), sort_keys=True).encode()
        self._records = TemporaryFile("the records of a shard", in_memory=IN_MEMORY)
        self._sizes: list[Lengths] = []

    @staticmethod
    def extension(output: Output) -> str:
        """Return `mds`, `mds.zstd` or `mds.gz`."""
        compression = algorithm(output.mds)
        return f"mds.{compression.partition(':')[0]}" if compression else "mds"

    @staticmethod
    def compressor(output: Output) -> Compressor:
        """Return the compressor for the complete shard."""
        match output.mds.compression:
            case "Zstd":
                return ZstdFrame(_LEVELS["Zstd"])
            case "Gzip":
                return GzipMembers(_LEVELS["Gzip"])
        return Plain()

    def encode(self, batch: pa.RecordBatch) -> bytes | bytearray | memoryview:
        """Store the batch and return no bytes yet: see `rest`."""
        if not batch.num_rows:
            return b""
        parts = [_part(column, batch.column(column.feature.name)) for column in self._columns]
        varying = [
            part.lengths for column, part in zip(self._columns, parts, strict=True) if column.size is None and isinstance(part, Ragged)
        ]
        pieces: list[Array] = [_run([Fixed(np.stack(varying, axis=1), np.dtype("<u4"))], batch.num_rows)] if varying else []
        run: list[Fixed] = []
        for part in parts:
            if isinstance(part, Fixed):
                run.append(part)
                continue
            pieces += [*([_run(run, batch.num_rows)] if run else []), part.content]
            run = []
        pieces += [_run(run, batch.num_rows)] if run else []
        data, offsets = binary_data(join(pieces, batch.num_rows))
        self._sizes.append(np.diff(offsets))
        self._records.write(memoryview(data[offsets[0] : offsets[-1]].data))
        return b""

    def close(self) -> bytes:
        """Return everything that precedes the records."""
        sizes = np.concatenate(self._sizes) if self._sizes else np.empty(0, np.int64)
        head = 4 + 4 * (len(sizes) + 1) + len(self._config)
        if head + self._records.size > LARGEST:
            raise BadSpec(
                f"An mds shard would have {head + self._records.size:,} bytes, but its offsets can be at most {LARGEST:,}: "
                "set output.shards.targetSize, records or count to make smaller shards."
            )
        offsets = head + np.concatenate(([0], np.cumsum(sizes)))
        return len(sizes).to_bytes(4, "little") + offsets.astype("<u4").tobytes() + self._config

    def rest(self) -> Iterator[bytes]:
        """Yield the bytes of all records. This method can be called only once."""
        with self._records:
            yield from self._records.pieces()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._records.close()


def _part(column: Column, values: Array) -> Part:
    """Return the contents of one column of a batch."""
    feature = column.feature
    if values.null_count:
        raise BadData(f"The feature {feature.name!r} has no value in some records, and mds can't store missing values; give it a default.")
    if column.size is not None:
        numbers = to_numpy(values)
        return Fixed(numbers.reshape(len(numbers), -1), np.dtype(_stored_dtype(feature)).newbyteorder("<"))
    if feature.dtype == "bytes":
        content = payloads.as_json(values, name=feature.name) if feature.shape else payloads.as_it_is(values)
    elif column.encoding == "json":
        content = payloads.as_json(values, name=feature.name)
    else:
        items, counts, step = payloads.list_bytes(values)
        heads, _ = look_up(counts, partial(_shape, step.shape))
        content = join([heads, items], len(values))
    return Ragged(content=content, lengths=np.diff(binary_data(content)[1]))


def _stored_dtype(feature: FeatureSpec) -> str:
    return "uint8" if feature.dtype == "bool" else feature.dtype


def _shape(step: tuple[int, ...], count: int) -> bytes:
    """Return the header that precedes an array's numbers in a column without a fixed shape."""
    shape = (count, *step)
    width = next(n for n in range(4) if max(shape) < 1 << (8 << n))
    return bytes([len(shape) << 2 | width]) + np.array(shape, f"<u{1 << width}").tobytes()


def _run(parts: Sequence[Fixed], rows: int) -> Array:
    """Combine consecutive parts of fixed size into one column."""
    fields: list[Any] = [(str(number), part.dtype, part.values.shape[1:]) for number, part in enumerate(parts)]
    records: Any = np.empty(rows, np.dtype(fields))
    for number, part in enumerate(parts):
        records[str(number)] = part.values
    return binary(records.view(np.uint8), even_offsets(rows, records.itemsize))


def index(shards: Sequence[Mapping[str, Any]]) -> bytes:
    """Return the `index.json` of a split. `shards` contains the entries made by `shard_of_index`."""
    return json.dumps({"shards": list(shards), "version": 2}, sort_keys=True).encode()


@dataclass(frozen=True)
class MdsFile:
    """The entry of a shard's file in the index."""

    basename: str
    size: int
    sha256: str

    def entry(self) -> dict[str, Any]:
        """Return the file's entry in `index.json`."""
        return {"basename": self.basename, "bytes": self.size, "hashes": {"sha256": self.sha256}}


def shard_of_index(
    shard_columns: Sequence[Column], *, raw: MdsFile, records: int, compressed: MdsFile | None = None, compression: str | None = None
) -> dict[str, Any]:
    """Return a shard's entry in `index.json`.

    `raw` is the uncompressed shard, which the library reads. `compressed` is the compressed file, if shards are stored compressed.
    """
    zipped = compressed.entry() if compressed is not None else None
    return config(shard_columns, compression) | {"raw_data": raw.entry(), "samples": records, "zip_data": zipped}
