"""Encoder for JSON Lines: each line is a JSON object in UTF-8, with the keys in the order of the spec.

    {"id":7,"score":0.5,"name":"a \\"b\\"","tags":["x","y"],"image":"iVBORw0K…","missing":null}

Floats are written as the shortest text that gives the same value in their type. Integers are written with all digits. Tensors, lists and
sequences are nested arrays, nested values are objects and arrays, and bytes are written as base64. Python's json module reads back the same
values. The encoder works on complete columns.
"""

import json
import math
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa

from dataprep_api.spec import Output
from dataprep_converter.core.compression import Compressor, GzipMembers, Plain
from dataprep_converter.core.errors import BadData
from dataprep_converter.core.lists import flatten_lists
from dataprep_converter.core.tensors import Array, pc
from dataprep_converter.formats.columnar.tables_encoder import leaves, ordered
from dataprep_converter.formats.encoder import SingleFile
from dataprep_converter.formats.nested.json_texts import array, escape, quote
from dataprep_converter.formats.text import texts
from dataprep_converter.formats.tfrecord.contents import even_offsets
from dataprep_converter.records.feature import FeatureSpec

_NON_FINITE: Final = {
    "Null": ("null", "null", "null"),
    "Text": ('"NaN"', '"Infinity"', '"-Infinity"'),
    "Literal": ("NaN", "Infinity", "-Infinity"),
}
"""For each value of `output.jsonl.nonFinite`, how NaN and the two infinities are written."""


class JsonlEncoder(SingleFile):
    """Encodes one JSON Lines file."""

    def __init__(self, output: Output, features: Sequence[FeatureSpec]) -> None:
        self._options = output.jsonl
        self._features = ordered(features)
        self._records = 0

    @staticmethod
    def extension(output: Output) -> str:
        """Return `jsonl`, or `jsonl.gz` if the file is compressed."""
        return "jsonl.gz" if output.jsonl.compression == "Gzip" else "jsonl"

    @staticmethod
    def compressor(output: Output) -> Compressor:
        """Return gzip if the spec selects it."""
        return GzipMembers(output.jsonl.compression_level) if output.jsonl.compression == "Gzip" else Plain()

    @staticmethod
    def holds_null(_output: Output, _feature: FeatureSpec) -> bool:
        """Return True: a null is `null`."""
        return True

    def encode(self, batch: pa.RecordBatch) -> bytes | bytearray | memoryview:
        """Return the lines of the batch.

        Raises BadData for bytes that should be text but aren't, and for NaN and infinities if the spec doesn't say how to write them.
        """
        parts = [texts.content(self._lines(part)) for part in texts.slices(batch, self._features)]
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def close(self) -> bytes:
        """Return no bytes: the file has no footer."""
        return b""

    def _lines(self, batch: pa.RecordBatch) -> Array:
        pieces: list[Any] = []
        for number, feature in enumerate(self._features):
            key = json.dumps(feature.name, ensure_ascii=False)
            pieces += [texts.text(f"{',' if number else '{'}{key}:"), self._column(batch.column(feature.name), feature)]
        self._records += batch.num_rows
        return texts.join(*pieces, texts.text("}\n"))

    def _column(self, column: Array, feature: FeatureSpec) -> Array:
        if self._options.non_finite == "Fail" and feature.kind == "float" and (non_finite := texts.first_non_finite(column)):
            raise BadData(
                f"The feature {feature.name!r} is {non_finite[1]} in record {self._records + non_finite[0]} of a shard."
                " JSON can't represent this value; set output.jsonl.nonFinite to Null, Text or Literal to say how it is written."
            )
        valid = column.drop_null() if column.null_count else column
        return texts.with_nulls(column, self._format_rows(valid, feature, feature.shape), "null")

    def _format_rows(self, values: Array, feature: FeatureSpec, shape: tuple[int, ...]) -> Array:
        """Return each row's JSON, for values without null rows. `shape` is the shape of a row."""
        if -1 in shape:
            rows = flatten_lists(values)
            ends = np.concatenate((np.zeros(1, np.int64), np.cumsum(rows.counts)))
            return array(self._format_rows(rows.items, feature, shape[1:]), ends)
        items = self._scalars(leaves(values), feature)
        for depth in range(len(shape) - 1, -1, -1):
            items = array(items, even_offsets(len(values) * math.prod(shape[:depth]), shape[depth]))
        return items

    def _scalars(self, values: Array, feature: FeatureSpec) -> Array:
        if feature.nested is not None:
            return texts.strings(values, feature_name=feature.name)
        if feature.dtype != "bytes":
            return _numbers(values, self._options.non_finite)
        if feature.text or self._options.bytes == "Text":
            return quote(escape(texts.strings(values, feature_name=feature.name)))
        return quote(texts.base64(values))


def _numbers(values: Array, non_finite: str) -> Array:
    numbers = texts.numbers(values)
    if not pa.types.is_floating(values.type) or non_finite == "Fail":
        return numbers
    for word, replacement in zip(("nan", "inf", "-inf"), _NON_FINITE[non_finite], strict=True):
        numbers = pc.if_else(pc.equal(numbers, texts.text(word)), texts.text(replacement), numbers)
    return numbers
