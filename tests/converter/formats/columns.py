"""Encode and decode columns with a format, in the same way as a job, and generate columns of every kind for these tests."""

import gzip
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import strategies as st
from tests.converter.formats.late import read_late

from dataprep_api.dataset.report import Manifest
from dataprep_api.dataset.run_id import NullRule
from dataprep_api.spec import Feature, LabelFeature, Output
from dataprep_converter.core.tensors import to_arrow
from dataprep_converter.formats.registry import decoder, encoder_class
from dataprep_converter.pipeline.features import Projector, resolve
from dataprep_converter.records.batch import SAMPLE, Batch
from dataprep_converter.records.feature import FeatureSpec, describe


@dataclass(frozen=True)
class Written:
    """A shard that was encoded from some columns."""

    output: Output
    features: list[FeatureSpec]
    data: bytes

    @property
    def plain(self) -> bytes:
        """The uncompressed bytes of the shard."""
        return gzip.decompress(self.data) if self.data.startswith(b"\x1f\x8b") else self.data

    def manifest(self) -> Manifest:
        """Return the parts of the data set's manifest that decoders read."""
        compression = encoder_class(self.output.format).compressor(self.output).name
        content = {"output": self.output.model_dump(mode="json", by_alias=True, exclude_defaults=True)}
        empty: dict[str, Any] = {"run_id": "", "inputs_sha256": "", "digest": "", "raw_digest": "", "splits": [], "files": []}
        counts = dict.fromkeys(("encoding_version", "records_in", "records_out", "bad", "filtered", "size"), 0)
        known = {"format": self.output.format, "compression": compression, "content": content, "features": describe(self.features)}
        return Manifest.model_validate(empty | counts | known)

    def records(self, *, size: int = 1 << 20, data: bytes | None = None) -> list[dict[str, Any]]:
        """Read the file back in pieces of equal size, and return its values."""
        data = self.data if data is None else data
        found = decoder(self.manifest())
        pieces = (data[at : at + size] for at in range(0, len(data), size))
        return [found.parse(record) for _, record in found.read(pieces)]


def written(
    format_: str,
    columns: Mapping[str, Any],
    *,
    labels: Sequence[str] = (),
    sequences: Sequence[str] = (),
    cuts: Sequence[int] = (),
    options: Mapping[str, Any] | None = None,
    nulls: NullRule = "Keep",
) -> Written:
    """Encode the columns to a shard. Batches end at the rows in `cuts`. `options` are the format's options.

    With `nulls="Dropped"`, the encoder receives nulls even if it can't store them.
    """
    output = Output.model_validate({"uri": "out", "format": format_, format_: options or {}})
    count = len(next(iter(columns.values())))
    records = pa.record_batch({**columns, SAMPLE: pa.array(range(count), pa.int64())})
    features = [Feature(name=name, sequence=name in sequences) for name in columns if name not in labels]
    targets = [LabelFeature(name=name) for name in labels]
    projector = resolve(features, targets, schema=records.schema, default_label="", output=output, nulls=nulls)
    bounds = [0, *sorted(min(cut, count) for cut in cuts), count]
    parts = (_projected(projector, records.slice(first, last - first)) for first, last in pairwise(bounds))
    with encoder_class(format_)(output, projector.features) as encoder:
        compressor = encoder.compressor(output)
        data = b"".join(bytes(compressor.compress(made)) for made in read_late(encoder, parts))
        data += bytes(compressor.compress(encoder.close() + b"".join(encoder.rest()))) + compressor.finish()
    return Written(output=output, features=projector.features, data=data)


def _projected(projector: Projector, records: pa.RecordBatch) -> pa.RecordBatch:
    batch = projector.project(Batch(records=records, bad=[], bytes_in=0))
    assert batch.bad == []
    return batch.records


def tensors(*rows: Any, dtype: str = "float32") -> Any:
    """Return a column of tensors."""
    return to_arrow(np.array(rows, dtype))


WORDS = st.text(st.characters(codec="utf-8"), max_size=6)
NUMBERS: Mapping[str, Any] = {
    "int8": st.integers(-(2**7), 2**7 - 1),
    "uint32": st.integers(0, 2**32 - 1),
    "int64": st.integers(-(2**63), 2**63 - 1),
    "bool": st.booleans(),
    "float16": st.floats(width=16),
    "float32": st.floats(width=32),
    "float64": st.floats(),
}
"""Values of each number type, including NaN and the infinities."""


@st.composite
def any_columns(draw: Any, *, ragged: bool = True, raw: bool = True, finite: bool = False) -> tuple[dict[str, Any], list[str], list[int]]:
    """Generate (columns, names of the sequences, cuts) with up to 12 records.

    The columns are scalars with nulls, tensors, text and, if requested, lists and bytes.
    """
    count = draw(st.integers(0, 12))
    numbers = {name: each.filter(np.isfinite) if finite and name.startswith("float") else each for name, each in NUMBERS.items()}

    def rows(of: Any) -> Any:
        return draw(st.lists(of, min_size=count, max_size=count))

    columns: dict[str, Any] = {}
    for name, of in numbers.items():
        columns[name] = pa.array(_numpy(rows(st.none() | of), name), _ARROW[name])
    columns["text"] = pa.array(rows(st.none() | WORDS), pa.string())
    columns["matrix"] = to_arrow(np.array(rows(st.lists(numbers["float32"], min_size=6, max_size=6)), "float32").reshape(count, 2, 3))
    columns["pixels"] = to_arrow(np.array(rows(st.lists(st.integers(0, 255), min_size=3, max_size=3)), "uint8").reshape(count, 3))
    columns["one of two"] = pa.array(rows(st.none() | st.lists(numbers["int64"], min_size=2, max_size=2)), pa.list_(pa.int64(), 2))
    columns["class"] = pa.array(rows(st.sampled_from(["a", "b"])), pa.string()).dictionary_encode()
    if raw:
        columns["bytes"] = pa.array(rows(st.none() | st.binary(max_size=7)), pa.large_binary())
    if ragged:
        columns["ragged"] = pa.array(rows(st.none() | st.lists(numbers["float64"], max_size=4)), pa.list_(pa.float64()))
        columns["words"] = pa.array(rows(st.lists(WORDS, max_size=3)), pa.large_list(pa.large_string()))
        columns["steps"] = pa.array(rows(st.lists(numbers["int64"], max_size=3)), pa.list_(pa.int64()))
        vectors = st.lists(st.lists(numbers["float32"], min_size=2, max_size=2), max_size=3)
        columns["vectors"] = pa.array(rows(vectors), pa.list_(pa.list_(pa.float32(), 2)))
        columns["sentences"] = pa.array(rows(st.lists(st.lists(WORDS, max_size=2), max_size=2)), pa.list_(pa.list_(pa.string())))
    cuts = draw(st.lists(st.integers(0, count), max_size=4))
    return columns, [name for name in ("steps", "vectors", "sentences") if name in columns], cuts


_ARROW: Mapping[str, Any] = {
    "int8": pa.int8(), "uint32": pa.uint32(), "int64": pa.int64(), "bool": pa.bool_(),
    "float16": pa.float16(), "float32": pa.float32(), "float64": pa.float64(),
}  # fmt: skip


def _numpy(values: list[Any], dtype: str) -> list[Any]:
    """Convert float16 values to numpy's type, which Arrow requires."""
    return [np.float16(value) if value is not None and dtype == "float16" else value for value in values]


def plain(column: Any) -> list[Any]:
    """Return a column's rows as Python values. Tensors become nested lists."""
    if isinstance(column.type, pa.FixedShapeTensorType):
        found: list[Any] = column.to_numpy_ndarray().tolist() if len(column) else []
        return found
    return [float(value) if isinstance(value, np.floating) else value for value in column.to_pylist()]


def same(one: Any, other: Any) -> bool:
    """Return whether values, bits and number types are equal. NaN equals NaN, -0.0 differs from 0.0, and 1 differs from 1.0 and from true."""
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, float) and isinstance(other, float):
        return repr(one) == repr(other)
    return type(one) is type(other) and bool(one == other)


def flat(value: Any) -> list[Any]:
    """Convert a feature's value to the form that decoders return: a flat list, with text as bytes, and an empty list for a null."""
    if isinstance(value, list):
        return [each for inner in value for each in flat(inner)]
    return [] if value is None else [value.encode() if isinstance(value, str) else value]


def expected(columns: Mapping[str, Any], sequences: Sequence[str]) -> list[dict[str, Any]]:
    """Return the records that decoders should return for these columns."""
    rows = {name: plain(column) for name, column in columns.items()}
    count = len(next(iter(rows.values())))
    return [
        {name: [flat(step) for step in values[row] or []] if name in sequences else flat(values[row]) for name, values in rows.items()}
        for row in range(count)
    ]


def all_same(found: list[dict[str, Any]], wanted: list[dict[str, Any]]) -> bool:
    """Return whether all records are equal according to `same`."""
    return [list(each) for each in found] == [list(each) for each in wanted] and all(
        same(one[name], other[name]) for one, other in zip(found, wanted, strict=True) for name in one
    )


PARQUET: Any = pq


IPC: Any = pa.ipc


def table_of(made: Written) -> Any:
    """Read the file with Arrow's own readers."""
    if made.output.format == "parquet":
        return PARQUET.ParquetFile(io.BytesIO(made.data)).read()
    return IPC.open_file(io.BytesIO(made.data)).read_all()
