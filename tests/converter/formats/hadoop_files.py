"""Encode batches in the same way as a job, and read the bytes back in the same way as `verify`."""

import struct
from itertools import pairwise
from types import SimpleNamespace
from typing import Any, Literal

import numpy as np
import pyarrow as pa
from tests.converter.formats.late import read_late

from dataprep_api.dataset.plan import Shard
from dataprep_api.spec import Feature, LabelFeature, Output
from dataprep_converter.formats.hadoop import sequence_file_decoder
from dataprep_converter.formats.hadoop.map_file_encoder import POSITIONS, MapFileEncoder
from dataprep_converter.formats.hadoop.sequence_file_decoder import MapFileDecoder, SequenceFileDecoder
from dataprep_converter.formats.hadoop.sequence_file_encoder import SequenceFileEncoder
from dataprep_converter.formats.hadoop.writables_decoder import Long
from dataprep_converter.formats.hadoop.writables_encoder import Pairs
from dataprep_converter.pipeline.features import resolve
from dataprep_converter.records.batch import SAMPLE, Batch
from dataprep_converter.records.columns import IS_SEQUENCE
from dataprep_converter.records.feature import FeatureSpec, describe

Format = Literal["sequenceFile", "mapFile"]


def a_shard(*, first: int = 0, index: int = 0) -> Shard:
    return Shard(number=index, split="train", index=index, file=f"part-r-{index:05d}", first=first, records=1 << 40)


def an_output(format_: Format, options: dict[str, Any]) -> Output:
    return Output.model_validate({"uri": "out", "format": format_, format_: options})


def projected(
    columns: dict[str, Any], output: Output, *, labels: list[str] | None = None, sequences: list[str] | None = None
) -> tuple[list[FeatureSpec], pa.RecordBatch]:
    """Return the features and a batch with their values, in the order of the columns."""
    given = [pa.field(name, column.type, metadata=IS_SEQUENCE if name in (sequences or []) else None) for name, column in columns.items()]
    rows = len(next(iter(columns.values())))
    records = pa.RecordBatch.from_arrays(
        [*columns.values(), pa.array(np.arange(rows))], schema=pa.schema([*given, pa.field(SAMPLE, pa.int64())])
    )
    projector = resolve(
        [Feature(name=name) for name in columns if name not in (labels or [])],
        [LabelFeature(name=name) for name in labels or []],
        schema=records.schema,
        default_label="",
        output=output,
    )
    batch = projector.project(Batch(records=records, bad=[], bytes_in=0))
    assert batch.bad == []
    return projector.features, batch.records


class Positions:
    """Decodes an index's values, which are positions."""

    java = POSITIONS

    def part(self, batch: pa.RecordBatch) -> Any:
        raise NotImplementedError(batch)


class Made:
    """An encoded file, and its decoder."""

    def __init__(
        self,
        columns: dict[str, Any],
        *,
        format_: Format = "sequenceFile",
        labels: list[str] | None = None,
        sequences: list[str] | None = None,
        shard: Shard | None = None,
        seed: int = 0,
        cuts: list[int] | None = None,
        **options: Any,
    ) -> None:
        output = an_output(format_, options)
        features, batch = projected(columns, output, labels=labels, sequences=sequences)
        encoder = SequenceFileEncoder(output, features) if format_ == "sequenceFile" else MapFileEncoder(output, features)
        encoder.begin(shard or a_shard(), seed=seed)
        bounds = [0, *sorted(cuts or []), batch.num_rows]
        self.data = b"".join(read_late(encoder, (batch.slice(begin, end - begin) for begin, end in pairwise(bounds))))
        self.data += encoder.close()
        self.index = encoder.companions().get("index", b"")
        self.decoder = (SequenceFileDecoder if format_ == "sequenceFile" else MapFileDecoder)(a_manifest(output, features))

    def body(self) -> bytes:
        """Return the bytes after the header of an uncompressed file."""
        return self.data[self.data.index(bytes(4), self.data.rindex(b".hadoop.")) + 6 + 16 :]

    def pairs(self, data: bytes | None = None, *, size: int = 1 << 20) -> list[tuple[int, tuple[bytes, bytes]]]:
        """Return (offset, (key, value)) of each record."""
        whole = self.data if data is None else data
        return list(self.decoder.read(whole[at : at + size] for at in range(0, len(whole), size)))

    def entries(self, index: bytes | None = None) -> list[tuple[bytes, int]]:
        """Return (key, position) of each entry in an index. The index may be one that another program has written."""
        pairs = Pairs(key=self.decoder.pairs.key, value=Positions())
        read = sequence_file_decoder.read(
            [self.index if index is None else index], pairs=pairs, key=self.decoder.key, value=Long(), compression="Block"
        )
        return [(key, struct.unpack(">q", position)[0]) for _, key, position in read]

    def parsed(self) -> list[dict[str, Any]]:
        return [self.decoder.parse(pair) for _, pair in self.pairs()]


def a_manifest(output: Output, features: list[FeatureSpec]) -> Any:
    """Return the parts of a manifest that a decoder of these formats reads."""
    written = output.model_dump(mode="json", by_alias=True, exclude_defaults=True, exclude={"uri"})
    return SimpleNamespace(format=output.format, content={"output": written}, features=describe(features))
