"""The source `text` turns each line of text files into a record, and leaves the line unchanged. Lines are found and copied without a Python
loop."""

from collections.abc import Mapping
from functools import partial
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from dataprep_api.spec.sources.text import TextSource
from dataprep_converter.core.errors import InputChanged
from dataprep_converter.core.tensors import Array, pc, to_arrow
from dataprep_converter.inputs.access import Access
from dataprep_converter.readers import Discovery, Listing
from dataprep_converter.readers.base.blocks import Block
from dataprep_converter.readers.base.partitions import ListFiles, Partitions, discover_with_partitions
from dataprep_converter.readers.text.lines import LIMIT, Lines, not_utf8, scan, with_lines
from dataprep_converter.readers.text.stretches import StretchReader
from dataprep_converter.readers.text_scan.files import examined_texts
from dataprep_converter.readers.text_scan.line_rule import LineRule
from dataprep_converter.readers.text_scan.stored import FORM
from dataprep_converter.sampling.units import Unit

_arrow: Any = pa  # the type stubs reject NumPy arrays as buffers


class TextReader(StretchReader):
    """See the module. The only column is `text`, the line without its line ending."""

    stored_form: ClassVar[int] = FORM

    @staticmethod
    def discover(source: TextSource, access: Access) -> Discovery:
        """Reads every file once. Raises NotFound for a URI without files."""
        return discover_with_partitions(source, access, of="source.text", units=lambda text, files: _units(text, files, access))

    def __init__(self, source: TextSource, state: Mapping[str, Any], access: Access) -> None:
        super().__init__(access, Partitions(source.uris, state, of="source.text", keep_nulls=access.keeps_nulls))
        self._text = source
        self._schema = pa.schema([("text", pa.string() if self._text.type == "String" else pa.binary())])

    def schema(self) -> pa.Schema:
        """The column `text`, of strings or bytes."""
        return self.with_partitions(self._schema)

    def scan(self, data: bytes, at_end: bool) -> Lines:
        """Finds the lines of `data`, without blank lines if the spec skips them."""
        return scan(data, at_end, skip_blank=self._text.skip_blank)

    def parse(self, data: bytes, *, records: int, line: int, uri: str) -> Block:
        """Parses the lines. A line that is not UTF-8 is bad, unless the spec asks for bytes."""
        lines = self.scan(data, True)
        if len(lines) != records:
            raise InputChanged(f"{uri}: {records:,} lines were planned from line {line} on, got {len(lines):,}.", uri=uri)
        column = _without_ends(data, lines)
        reasons: dict[int, str] = {}
        if self._text.type == "String":
            try:
                column = column.cast(pa.string())
            except pa.ArrowInvalid:
                reasons = {row: f"{why}; source.text.type: Bytes takes any bytes" for row, why in not_utf8(data, lines).items()}
                good = np.ones(records, np.bool_)
                good[list(reasons)] = False
                column = pc.if_else(to_arrow(good), column, b"").cast(pa.string())
        return Block.of(pa.RecordBatch.from_arrays([column], schema=self._schema), with_lines(reasons, lines, line))


def _without_ends(data: bytes, lines: Lines) -> Array:
    """The lines, without their line endings, as a binary column. Arrow copies them."""
    if not len(lines):
        return pa.array([], pa.binary())
    text = np.frombuffer(data, np.uint8)
    last = lines.ends - 1
    is_ended = text[last] == ord("\n")
    has_return = is_ended & (last > lines.starts) & (text[last - 1] == ord("\r"))
    # Build a column in which lines alternate with the gaps between them. The gaps contain the line ends and the skipped lines. Then take
    # every second row.
    offsets = np.column_stack((lines.starts, lines.ends - is_ended - has_return)).ravel().astype(np.int32)
    rows: Array = _arrow.Array.from_buffers(pa.binary(), len(offsets) - 1, [None, _arrow.py_buffer(offsets), _arrow.py_buffer(data)])
    return rows.take(to_arrow(np.arange(0, len(offsets) - 1, 2)))


def _units(text: TextSource, files: ListFiles, access: Access) -> Listing[Unit]:
    encoding = (text.encoding or "Utf8") if text.type == "String" else None
    for file in examined_texts(access, files(), LineRule(partial(scan, skip_blank=text.skip_blank), encoding, LIMIT)):
        yield from file.result.units(file.root, file.path, file.entry)
    return {}
