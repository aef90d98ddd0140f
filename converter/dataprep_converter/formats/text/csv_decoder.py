"""Decoder for `csv`. Every row must have the right number of cells, and quotes are allowed only around a cell."""

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, TypeAlias

import pyarrow as pa

from dataprep_api.dataset.report import Manifest
from dataprep_api.spec.formats.csv import CsvOptions
from dataprep_converter.core.errors import BrokenRecord
from dataprep_converter.core.tensors import Array
from dataprep_converter.formats.columnar.tables_decoder import features_of
from dataprep_converter.formats.text.csv_encoder import in_order, names
from dataprep_converter.formats.text.lines import lines, rounded
from dataprep_converter.formats.text.whole_columns import of_cells
from dataprep_converter.records.feature import FeatureSpec

Cell: TypeAlias = bytes | None
"""The text of a cell. An empty unquoted cell is a missing value, and becomes None."""


class CsvDecoder:
    """Decodes each record to the cells of a row. Offsets refer to the uncompressed text."""

    def __init__(self, manifest: Manifest) -> None:
        self._compression = manifest.compression
        self._options = CsvOptions.model_validate(manifest.content["output"].get("csv", {}))
        self._features = in_order(features_of(manifest), labels_first=self._options.labels_first)
        self._names = [name.encode() for feature in self._features for name in names(feature)]
        self._delimiter = self._options.delimiter.encode()
        self._is_one_number = len(self._names) == 1 and self._features[0].dtype != "bytes"
        stop = re.escape(self._delimiter)
        # The quantifiers are possessive, because backtracking in a large cell would need many times the cell's size in memory.
        self._cell = re.compile(rb'(?:"([^"]*+(?:""[^"]*+)*+)"|([^"\n%b]*+))(?:(%b)|\n)' % (stop, stop))

    def read(self, pieces: Iterable[bytes]) -> Iterator[tuple[int, list[Cell]]]:
        """Yield the rows. Raises BrokenRecord for a wrong header, and for a row with a wrong number of cells."""
        is_header = self._options.header
        for offset, row in _rows(lines(pieces, compression=self._compression)):
            cells = self._cells(row, offset)
            if is_header:
                if cells != self._names:
                    raise BrokenRecord(f"expected the header {_describe_cells(self._names)}, got {_describe_cells(cells)}", offset=offset)
                is_header = False
                continue
            if len(cells) != len(self._names):
                raise BrokenRecord(f"expected {len(self._names)} cells, got {len(cells)}", offset=offset)
            yield offset, cells
        if is_header:
            raise BrokenRecord("there is no header", offset=0)

    def parse(self, record: list[Cell]) -> dict[str, Any]:
        """Return the values of the row."""
        values: dict[str, Any] = {}
        at = 0
        for feature in self._features:
            count = len(names(feature))
            values[feature.name] = [_value(cell, feature) for cell in record[at : at + count] if cell is not None]
            at += count
        return values

    def columns(self, records: Sequence[list[Cell]], schema: pa.Schema) -> pa.RecordBatch | None:
        """Convert rows to columns of text and of numbers. Return None if a column can't be converted."""
        cells = list(zip(*records, strict=True))
        by_name: dict[str, Array | None] = {}
        at = 0
        for feature in self._features:
            count = len(names(feature))
            if feature.name in schema.names:
                by_name[feature.name] = of_cells(cells[at : at + count], feature, schema.field(feature.name).type)
            at += count
        columns = [column for name in schema.names if (column := by_name[name]) is not None]
        return pa.RecordBatch.from_arrays(columns, schema=schema) if len(columns) == len(schema) else None

    def _cells(self, row: bytes, offset: int) -> list[Cell]:
        if b'"' not in row:
            return [cell or None for cell in row[:-1].split(self._delimiter)]
        cells: list[Cell] = []
        at = 0
        while at < len(row):
            match = self._cell.match(row, at)
            if match is None:
                raise BrokenRecord("a quote where quotes aren't allowed", offset=offset + at)
            cells.append(match[1].replace(b'""', b'"') if match[1] is not None else match[2] or None)
            at = match.end()
        # The encoder quotes an empty cell that is the only cell of its row.
        return [None] if self._is_one_number and cells == [b""] else cells


def _rows(text_lines: Iterator[tuple[int, bytes]]) -> Iterator[tuple[int, bytes]]:
    """Join lines into rows. A line end within quotes doesn't end a row, so every row has an even number of quotes."""
    row_lines: list[bytes] = []
    first = 0
    is_open = False
    for offset, line in text_lines:
        if not row_lines:
            first = offset
        row_lines.append(line)
        is_open ^= bool(line.count(b'"') % 2)
        if not is_open:
            yield first, b"".join(row_lines)
            row_lines = []
    if row_lines:
        raise BrokenRecord("a quoted cell without a closing quote", offset=first)


def _value(cell: bytes, feature: FeatureSpec) -> Any:
    if feature.dtype == "bytes":
        return cell
    try:
        if feature.dtype == "bool":
            return {b"true": True, b"false": False}[cell]
        return int(cell) if feature.kind == "int64" else rounded(float(cell), feature.dtype)
    except (ValueError, KeyError) as exc:
        raise BrokenRecord(f"the feature {feature.name!r} is {cell[:64]!r}, which isn't a valid {feature.dtype}", offset=0) from exc


def _describe_cells(cells: Iterable[Cell]) -> str:
    text = b", ".join(cell or b"" for cell in cells).decode(errors="replace")
    return repr(text if len(text) <= 200 else text[:200] + "…")
