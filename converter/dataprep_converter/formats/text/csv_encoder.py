"""Encoder for CSV: a row for each record, with RFC 4180 quoting and \\n as the line end. The columns are in the order of the spec.

    id,embedding_0,embedding_1,name,label
    7,0.5,1.0,"a ""b"", c",2

Each value of a tensor has a separate column, `name_0`, `name_1`, … in row-major order. A null is an empty cell, and an empty string is
`""`.
"""

import math
import re
from collections import Counter
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from dataprep_api.spec import Output
from dataprep_converter.core.compression import Compressor, GzipMembers, Plain
from dataprep_converter.core.errors import BadSpec
from dataprep_converter.core.tensors import Array, pc
from dataprep_converter.formats.columnar.tables_encoder import leaves, ordered
from dataprep_converter.formats.encoder import SingleFile
from dataprep_converter.formats.text import texts
from dataprep_converter.formats.tfrecord.contents import even_offsets
from dataprep_converter.records.feature import FeatureSpec


class CsvEncoder(SingleFile):
    """Encodes one CSV file."""

    def __init__(self, output: Output, features: Sequence[FeatureSpec]) -> None:
        self._options = output.csv
        self._delimiter = self._options.delimiter
        if not self._delimiter.isascii() or self._delimiter.isalnum() or self._delimiter in '"+-.\r\n\0':
            raise BadSpec(
                f"output.csv.delimiter must be an ASCII character that can't be part of a number or a line end, got {self._delimiter!r}."
            )
        for feature in features:
            _check(feature, may_be_bytes=self._options.bytes == "Text")
        self._features = in_order(features, labels_first=self._options.labels_first)
        self._names = [name for feature in self._features for name in names(feature)]
        for name, count in Counter(self._names).items():
            if count > 1:
                raise BadSpec(f"csv: two features would have the column {name!r}; give one of them another name.")
        self._is_past_header = not self._options.header

    @staticmethod
    def extension(output: Output) -> str:
        """Return `csv`, or `csv.gz` if the file is compressed."""
        return "csv.gz" if output.csv.compression == "Gzip" else "csv"

    @staticmethod
    def compressor(output: Output) -> Compressor:
        """Return gzip if the spec selects it."""
        return GzipMembers(output.csv.compression_level) if output.csv.compression == "Gzip" else Plain()

    @staticmethod
    def holds_null(_output: Output, _feature: FeatureSpec) -> bool:
        """Return True: a null is an empty cell, or an empty cell for each value of a tensor."""
        return True

    def encode(self, batch: pa.RecordBatch) -> bytes | bytearray | memoryview:
        """Return the batch's lines, preceded by the header if it hasn't been written yet.

        Raises BadData for bytes that should be text but aren't.
        """
        return b"".join([self._header(), *(texts.content(self._lines(part)) for part in texts.slices(batch, self._features))])

    def close(self) -> bytes:
        """Return the header if the file has no records."""
        return self._header()

    def _header(self) -> bytes:
        if self._is_past_header:
            return b""
        self._is_past_header = True
        cells = self._quote(pa.array(self._names, pa.large_string())).to_pylist()
        return (self._delimiter.join(map(str, cells)) + "\n").encode()

    def _lines(self, batch: pa.RecordBatch) -> Array:
        pieces: list[Any] = []
        for feature in self._features:
            pieces += [self._column(batch.column(feature.name), feature), texts.text(self._delimiter)]
        return texts.join(*pieces[:-1], texts.text("\n"))

    def _column(self, column: Array, feature: FeatureSpec) -> Array:
        """Return each row's text: a single cell, or the cells of a tensor with delimiters between them."""
        valid = column.drop_null() if column.null_count else column
        values = leaves(valid)
        cells = self._quote(texts.strings(values, feature_name=feature.name)) if feature.dtype == "bytes" else texts.numbers(values)
        width = math.prod(feature.shape)
        if feature.shape:
            cells = texts.lists(cells, even_offsets(len(valid), width), self._delimiter)
        # Readers skip empty lines, so an empty cell is quoted if it is the only cell of its row.
        empty = '""' if len(self._names) == 1 else self._delimiter * (width - 1)
        return texts.with_nulls(column, cells, empty)

    def _quote(self, values: Array) -> Array:
        """Quote the values that need quotes: empty strings, and values that contain a delimiter, quote, line end or byte order mark."""
        pattern = f'["\\r\\n\ufeff{re.escape(self._delimiter)}]|^$'
        needed = pc.match_substring_regex(values, pattern)
        if not pc.any(needed).as_py():
            return values
        quoted = texts.join(texts.text('"'), pc.replace_substring(values, '"', '""'), texts.text('"'))
        cells: Array = pc.if_else(needed, quoted, values)
        return cells


def names(feature: FeatureSpec) -> list[str]:
    """Return the names of a feature's columns."""
    return [f"{feature.name}_{number}" for number in range(math.prod(feature.shape))] if feature.shape else [feature.name]


def in_order(features: Sequence[FeatureSpec], *, labels_first: bool) -> list[FeatureSpec]:
    """Return the features in the order of their columns."""
    return sorted(ordered(features), key=lambda feature: labels_first and not feature.label)


def _check(feature: FeatureSpec, *, may_be_bytes: bool) -> None:
    if -1 in feature.shape:
        kind = "a sequence" if feature.sequence else "a list of any length"
        raise BadSpec(f"The feature {feature.name!r} is {kind}, which csv can't store; jsonl, parquet and tfrecord can.")
    if feature.dtype == "bytes" and not feature.text and not may_be_bytes:
        raise BadSpec(
            f"The feature {feature.name!r} has bytes, which csv can't store; leave it out, set output.csv.bytes: Text if they are UTF-8, or use another format."
        )
