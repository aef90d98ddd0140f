"""Reads the first records of `jsonl` files, from which the columns are inferred (`json_columns.py`). Only the planner does this."""

from typing import Final

from dataprep_api.spec.sources.jsonl import JsonlSource
from dataprep_converter.inputs.access import Access
from dataprep_converter.inputs.encodings import in_utf8
from dataprep_converter.inputs.pinned import ForwardReader
from dataprep_converter.readers.base.partitions import ListFiles
from dataprep_converter.readers.text import json_arrays, stretches
from dataprep_converter.readers.text.lines import Lines, scan
from dataprep_converter.readers.text.not_text import refuse_binary
from dataprep_converter.readers.text.stretches import BOM, compression_in

_SAMPLE_BYTES: Final = 1 << 20


def first_records(jsonl: JsonlSource, files: ListFiles, access: Access, *, has_lines: bool) -> tuple[str, list[tuple[int, bytes]]]:
    """The URI of the first file with a record, and the file's first records, each with its line number. A record is an element of an array,
    or a line that isn't blank. If `has_lines`, files are read as lines even if they begin like an array.

    First reads 1 MiB of a file. Then doubles the number of bytes until they contain a complete record. If the columns are inferred, also
    reads more while the only line read so far is an array, because an array has no keys.
    """
    for _, _, entry in files():
        with access.store(entry.uri).open(entry.uri) as source:
            compression = compression_in(source)
            forward = ForwardReader(source, entry.uri, compression=compression, encoding=jsonl.encoding or "Utf8", obeys_mark=True)
            data = b""
            length = _SAMPLE_BYTES
            while length <= stretches.LONGEST_RECORD:
                data += forward.read(length - len(data))
                refuse_binary(data, entry.uri)
                text = data.removeprefix(BOM)
                at_end = len(data) < length
                is_last = at_end or 2 * length > stretches.LONGEST_RECORD
                lines = None if has_lines else _elements(text, entry.uri, at_end=at_end)
                if lines is None:
                    lines = scan(text, at_end, skip_blank=True)
                if len(lines) and (is_last or jsonl.columns is not None or not _is_only_an_array(text, lines)):
                    spans = zip(lines.starts.tolist(), lines.ends.tolist(), strict=True)
                    return entry.uri, [(lines.lines_before(start) + 1, in_utf8(text[start:end], forward.encoding)) for start, end in spans]
                if at_end:
                    break
                length *= 2
    return "", []


def _is_only_an_array(text: bytes, lines: Lines) -> bool:
    return len(lines) == 1 and text[int(lines.starts[0]) : int(lines.ends[0])].lstrip()[:1] == b"["


def _elements(text: bytes, uri: str, *, at_end: bool) -> Lines | None:
    """The complete elements at the beginning of a file, or None if this beginning shows that the file isn't an array."""
    is_whole = at_end and len(text) <= json_arrays.START_BYTES
    if json_arrays.is_array(text[: json_arrays.START_BYTES], at_end=is_whole) is False:
        return None
    try:
        return json_arrays.sample_of(text, uri)
    except json_arrays.ArrayInFirstLine:
        return None
