"""The rule for examining files in which each record is a line."""

from collections.abc import Sequence
from dataclasses import dataclass

from dataprep_converter.inputs.encodings import Encoding
from dataprep_converter.readers.text.stretches import BOM, RecordScan, Scan, open_forward
from dataprep_converter.readers.text_scan.files import TextStart, plain_encoding
from dataprep_converter.readers.text_scan.text_file import TextFile, examine_rest
from dataprep_converter.stores import Entry, Input


@dataclass(frozen=True)
class LineRule:
    """The `TextRule` of files whose records are lines."""

    scan_lines: Scan
    encoding: Encoding | None
    """The encoding of files without a byte order mark. Such a mark isn't part of the text.

    If `encoding` is None, the bytes have no encoding, and a mark stays in the text.
    """
    limit: str
    """The message for a line that is too long."""

    def scan(self, data: bytes, at_end: bool) -> RecordScan:
        """Finds the lines that are records."""
        return self.scan_lines(data, at_end)

    def prefixes(self, previous: bytes) -> Sequence[bytes]:
        """Returns only one prefix: the previous byte, which shows whether a line begins here."""
        return [previous]

    def prefix_after(self, data: bytes, records: RecordScan) -> bytes:
        """The last byte of `data`."""
        del records
        return data[-1:]

    def examine(self, source: Input, entry: Entry, *, ahead: bool) -> TextFile:
        """Reads a complete file."""
        with open_forward(source, entry, self.encoding, ahead=ahead) as forward:
            first_bytes = forward.read(len(BOM))
            first_bytes = b"" if self.encoding is not None and first_bytes == BOM else first_bytes
            return examine_rest(forward, first_bytes, line=1, scan=self.scan, uri=entry.uri, limit=self.limit)

    def encoding_of_cells(self, source: Input) -> Encoding | None:
        """See `plain_encoding`."""
        return plain_encoding(source, self.encoding)

    def start_of_cells(self, source: Input, entry: Entry) -> TextStart:
        """The position after the byte order mark."""
        del entry
        return TextStart(len(BOM) if self.encoding is not None and source.read_at(0, len(BOM)) == BOM else 0, line=1)
