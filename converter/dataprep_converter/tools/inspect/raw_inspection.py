"""Shows the format, columns and first records of files written by any program (`dataprep inspect`, `dataprep head`)."""

import json
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final, TextIO

from rich.console import Console
from rich.table import Table
from rich.text import Text

from dataprep_api import names
from dataprep_api.redaction import one_line
from dataprep_converter.core.errors import BadSpec, NotFound, NotWhole
from dataprep_converter.dataset.output_folder import OutputFolder
from dataprep_converter.inputs.access import Access
from dataprep_converter.inputs.compressions import MAGIC_BYTES, compression_of
from dataprep_converter.readers.base.listing import input_files
from dataprep_converter.tools.infer.file_types import extension, kind_of
from dataprep_converter.tools.infer.foreign_files import description_of
from dataprep_converter.tools.infer.source_drafts import File, head_of
from dataprep_converter.tools.inspect.inspection import console_of
from dataprep_converter.tools.inspect.raw_records import FORMS, Cut, Form, RawFile, RawRecords, form_of

_MOST_COLUMNS: Final = 200
_SHOWN_VALUES: Final = 8
_SHOWN_TEXT: Final = 60


@dataclass(frozen=True)
class RawData:
    """The first records of the files at a URI."""

    uri: str
    form: str
    files: int
    size: int
    """Total size in bytes of the files with this format."""
    first: str
    """The URI of the file whose records are shown."""
    contents: RawRecords


def is_raw(uri: str, access: Access) -> bool:
    """Whether the URI holds files, but no dataprep data set, finished or not."""
    if access.store(uri).stat(uri) is not None:
        return True  # Don't look below a file's URI: no path can be appended to a web address that ends in a signature.
    folder = OutputFolder(uri, access)
    try:
        if folder.success() is not None or folder.read(names.OWNER) is not None:
            return False
    except NotWhole:
        pass  # another program's _SUCCESS
    try:
        return next(input_files(access, [uri]), None) is not None
    except NotFound:
        return False


def look(uri: str, access: Access, *, records: int) -> RawData:
    """Reads the first records of a file. If the files' records can't be shown, raises BadSpec, which names the type of the files."""
    files = [File(path, entry) for _, path, entry in input_files(access, [uri]) if entry.size]
    if not files:
        raise NotFound(f"{uri} has only empty files.", uri=uri)
    alike, form = _most_common_form(files, access)
    first = alike[0]
    with access.store(first.entry.uri).open(first.entry.uri) as source:
        compression = compression_of(source.read_at(0, MAGIC_BYTES))
        contents = form.read(RawFile(first.entry.uri, source, head_of(first, access), compression), records)
    return RawData(uri, form.name, len(alike), sum(file.entry.size for file in alike), first.entry.uri, contents)


def _most_common_form(files: Sequence[File], access: Access) -> tuple[list[File], Form]:
    """Returns the files with the most common extension whose format is known. Only the first file of each extension is examined."""
    known: list[tuple[list[File], Form]] = []
    for ending, _ in Counter(extension(file.path) for file in files).most_common():
        alike = [file for file in files if extension(file.path) == ending]
        form = form_of(alike[0].path, head_of(alike[0], access))
        if form is not None:
            known.append((alike, form))
    # MDS shards take precedence, because an MDS folder also contains an index.json, which is JSON.
    shards = next((each for each in known if each[1].name == "MDS"), None)
    if not known:
        raise _unknown(files[0], access)
    return shards or known[0]


def _unknown(file: File, access: Access) -> BadSpec:
    head = head_of(file, access)
    kind = kind_of(file.path, head)
    shown = f"Only finished data sets and files in these formats can be shown: {', '.join(form.name for form in FORMS[:-1])} and {FORMS[-1].name}"
    if kind is not None:
        return BadSpec(
            f"{file.entry.uri} is data for the source {kind}, whose records aren't shown: see dataprep infer. {shown}.", uri=file.entry.uri
        )
    name, advice = description_of(head)
    return BadSpec(f"{file.entry.uri} is {name}. Its records can't be shown: {advice}. {shown}.", uri=file.entry.uri)


def show(data: RawData, *, as_json: bool, stream: TextIO, only_records: bool = False) -> None:
    """Prints the format, the columns and the records, or only the records."""
    if as_json:
        records = [{name: _jsonable(value) for name, value in record.items()} for record in data.contents.records]
        document = records if only_records else _document(data) | {"records": records}
        stream.write(json.dumps(document, indent=2) + "\n")
        return
    console = console_of(stream)
    if not only_records:
        console.print(one_line(_title(data)), soft_wrap=True)
        console.print(_columns(data.contents.columns))
    for number, record in enumerate(data.contents.records):
        if number:
            console.print()
        show_record(console, record)


def _title(data: RawData) -> str:
    files = f"{data.files:,} file{'s' * (data.files != 1)} of {data.form}, {data.size:,} bytes"
    total = f"; {data.contents.total:,} record{'s' * (data.contents.total != 1)}" if data.contents.total is not None else ""
    return f"{data.uri}: {files}{f'; the first: {data.first}' if data.first != data.uri else ''}{total}"


def _document(data: RawData) -> dict[str, Any]:  # Any: JSON
    return {
        "uri": data.uri,
        "form": data.form,
        "files": data.files,
        "bytes": data.size,
        "first": data.first,
        "recordsOfFirst": data.contents.total,
        "columns": [{"name": name, "type": kind} for name, kind in data.contents.columns.items()],
    }


def _columns(columns: Mapping[str, str]) -> Table:
    table = Table()
    table.add_column("column", overflow="fold")
    table.add_column("type", overflow="fold")
    for name, kind in list(columns.items())[:_MOST_COLUMNS]:
        table.add_row(one_line(name), one_line(kind))
    if len(columns) > _MOST_COLUMNS:
        table.add_row(f"… and {len(columns) - _MOST_COLUMNS:,} more", "")
    return table


def show_record(console: Console, record: Mapping[str, Any]) -> None:
    """Prints a line for each value."""
    for name, value in record.items():
        values = ", ".join(map(_shorten, value[:_SHOWN_VALUES])) if isinstance(value, list) else _shorten(value)
        more = f", … ({len(value):,} values)" if isinstance(value, list) and len(value) > _SHOWN_VALUES else ""
        console.print(Text.assemble((one_line(name), "bold"), one_line(f": {values}{more}")), soft_wrap=True)


def _shorten(value: Any) -> str:
    if isinstance(value, Cut):
        return _short_bytes(value.content, value.size)
    if isinstance(value, bytes):
        return _short_bytes(value, len(value))
    if isinstance(value, str):
        return value if len(value) <= _SHOWN_TEXT else f"{value[:_SHOWN_TEXT]}… ({len(value):,} characters)"
    if isinstance(value, list):
        return f"[{', '.join(map(_shorten, value[:_SHOWN_VALUES]))}{', …' * (len(value) > _SHOWN_VALUES)}]"
    if isinstance(value, dict):
        inner = [f"{name}: {_shorten(each)}" for name, each in list(value.items())[:_SHOWN_VALUES]]
        return f"{{{', '.join(inner)}{', …' * (len(value) > _SHOWN_VALUES)}}}"
    if isinstance(value, Decimal):
        return f"{value:f}"
    return "null" if value is None else f"{value:.6g}" if isinstance(value, float) else str(value)


def _short_bytes(content: bytes, size: int) -> str:
    text = repr(content[:_SHOWN_TEXT])
    return f"{text}… ({size:,} bytes)" if size > _SHOWN_TEXT else text


def _jsonable(value: Any) -> Any:
    """Converts a value to JSON. Bytes become Latin-1 text, NaN and the infinities become names, and types that JSON lacks become text."""
    if isinstance(value, dict):
        return {str(name): _jsonable(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_jsonable(each) for each in value]
    if isinstance(value, Cut):
        return value.content.decode("latin-1")
    if isinstance(value, bytes):
        return value.decode("latin-1")
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, Decimal):
        return f"{value:f}"
    return value if value is None or isinstance(value, str | int | float | bool) else str(value)
