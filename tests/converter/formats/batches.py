"""Helpers for format tests: batches like those that a job makes, which are encoded and then decoded again."""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

import pyarrow as pa
from tests.converter.formats.late import read_late

from dataprep_api.dataset.report import Manifest
from dataprep_api.spec import Feature, LabelFeature, Output
from dataprep_converter.core.errors import BrokenRecord
from dataprep_converter.formats.decoder import Decoder
from dataprep_converter.formats.registry import decoder, encoder_class
from dataprep_converter.pipeline.features import resolve
from dataprep_converter.records.batch import SAMPLE, Batch
from dataprep_converter.records.feature import FeatureSpec, describe


class Encoded:
    """A file of one format, made from columns. `labels` and `sequences` name columns, and `dtypes` are the types set in the spec."""

    def __init__(
        self,
        format_: str,
        columns: dict[str, Any],
        *,
        labels: Sequence[str] = (),
        sequences: Sequence[str] = (),
        dtypes: dict[str, Any] | None = None,
        cuts: Sequence[int] = (),
        **options: Any,
    ) -> None:
        written: dict[str, Any] = {"uri": "out", "format": format_, format_: options}
        self.output = Output.model_validate(written)
        rows = len(next(iter(columns.values())))
        records = pa.record_batch({**columns, SAMPLE: pa.array(range(rows), pa.int64())})
        known = dtypes or {}
        features = [
            Feature(name=name, dtype=known.get(name), sequence=True if name in sequences else None)
            for name in columns
            if name not in labels
        ]
        targets = [LabelFeature(name=name, dtype=known.get(name), sequence=True if name in sequences else None) for name in labels]
        projector = resolve(features, targets, schema=records.schema, default_label="", output=self.output)
        self.features: list[FeatureSpec] = projector.features
        batch = projector.project(Batch(records=records, bad=[], bytes_in=0))
        assert not batch.bad
        bounds = [0, *cuts, rows]
        parts = [batch.records.slice(first, after - first) for first, after in pairwise(bounds)]
        with encoder_class(format_)(self.output, self.features) as encoder:
            self.content = b"".join([*read_late(encoder, parts), encoder.close(), *encoder.rest()])

    def decoder(self) -> Decoder:
        """Return the decoder that `verify` and `inspect` would use for the file."""
        manifest = Manifest(
            run_id="", encoding_version=1, inputs_sha256="", content={"output": self.output.model_dump(mode="json", by_alias=True)},
            format=self.output.format, compression="none", features=describe(self.features), records_in=0, records_out=0, bad=0,
            filtered=0, size=0, splits=[], files=[], digest="", raw_digest="",
        )  # fmt: skip
        return decoder(manifest)

    def parsed(self, content: bytes | None = None, *, piece: int = 7) -> list[dict[str, Any]]:
        """Return the records of the file. If `content` is given, decode these bytes as if they were the file's."""
        data = self.content if content is None else content
        reader = self.decoder()
        pieces = (data[first : first + piece] for first in range(0, len(data), piece))
        return [reader.parse(record) for _, record in reader.read(pieces)]


def flipped(content: bytes) -> Iterator[bytes]:
    """For each byte, yield a copy of the content with one bit of this byte flipped."""
    for place in range(len(content)):
        damaged = bytearray(content)
        damaged[place] ^= 1 << place % 8
        yield bytes(damaged)


def breaks(made: Encoded, content: bytes) -> bool:
    """Return whether the decoder of `made` rejects these bytes. An error that isn't a rejection fails the test."""
    try:
        made.parsed(content, piece=1 << 20)
    except BrokenRecord:
        return True
    return False
