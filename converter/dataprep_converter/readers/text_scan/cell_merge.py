"""Combines the scans of a file's cells (see `cells.py`). Chooses each cell's prefix, and numbers its rows and lines."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from dataprep_converter.core.errors import BadData, InputChanged
from dataprep_converter.inputs.encodings import Encoding
from dataprep_converter.readers.text.stretches import Stretch, long_record, open_quote
from dataprep_converter.readers.text_scan.cells import CellUnits
from dataprep_converter.readers.text_scan.text_file import TextFile


@dataclass(frozen=True)
class TextCell:
    """The findings in one cell of a text file. They don't depend on other cells or files."""

    encoding: Encoding
    units: Mapping[bytes, CellUnits]
    """The units that begin in the cell, for each prefix that the cell can have."""
    line: int = 1
    """The line number at which the units of the file's first cell begin."""
    names: Sequence[str] | None = None
    """The names in the file's header. Only the first cell has them."""


class CellMerge:
    """Combines the cells of one file, which `take` receives in order."""

    def __init__(self, uri: str, first: TextCell, *, limit: str) -> None:
        self._uri = uri
        self._limit = limit
        self._prefix: bytes | None = b""
        self._line = first.line
        self._row = 0

    def take(self, cell: TextCell) -> TextFile:
        """The stretches that begin in the next cell, and the file's fault if it is in this cell. Raises InputChanged if the cell can't
        follow the one before it."""
        units = cell.units.get(self._prefix) if self._prefix is not None else None
        if units is None:
            raise InputChanged(f"{self._uri} changed while it was being read. Plan again.", uri=self._uri)
        found: list[Stretch] = []
        for offset, size, records, lines in zip(units.offsets, units.sizes, units.records, units.lines, strict=True):
            found.append(Stretch(offset, size, self._row, records, self._line + lines))
            self._row += records
        fault = self._fault(units)
        self._line += units.line_ends
        self._prefix = units.prefix
        return TextFile(found, None, cell.encoding, names=cell.names, fault=fault)

    def _fault(self, units: CellUnits) -> BadData | None:
        if units.fault is None:
            return None
        kind, line_ends = units.fault
        line = self._line + line_ends
        return open_quote(self._uri, line) if kind == "OpenQuote" else long_record(self._uri, line, self._limit)
