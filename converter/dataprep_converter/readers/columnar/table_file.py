"""The facts that the plan step needs about a `parquet`, `arrow`, `avro` or `orc` file, and the JSON form of these facts for a scan.

Only facts that become part of the plan are stored: the schema and four numbers for each unit. The statistics in footers aren't stored.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import pyarrow as pa

from dataprep_converter.records.schemas import parse_schema, schema_text
from dataprep_converter.runtime.scans import WithCommon


@dataclass(frozen=True, slots=True)
class Span:
    """A part of a file that becomes a unit, such as a row group or a stripe."""

    records: int
    size: int
    """The part's size in bytes."""
    offset: int
    extra: str
    """How the reader finds the part in the file, as JSON."""


@dataclass(frozen=True)
class TableFile:
    """The facts that the plan step finds in one file. They depend on the columns that the job reads, but not on other files."""

    schema: pa.Schema
    """The schema without the file's own metadata, which can be large and can describe the file's rows. The fields' metadata is kept."""
    spans: Sequence[Span]
    """The parts of the file that have records."""
    int96: Sequence[str] = ()
    """The names of the columns whose times are INT96, an old type of Parquet."""


def to_document(file: TableFile) -> WithCommon | None:
    """Returns the JSON form, or None if the schema would change when it is stored and read back."""
    try:
        text = schema_text(file.schema)
        if not _schema_of(text).equals(file.schema, check_metadata=True):
            return None
    except (pa.ArrowException, UnicodeError):
        return None
    numbers: dict[str, int] = {}
    spans = [[span.records, span.size, span.offset, numbers.setdefault(span.extra, len(numbers))] for span in file.spans]
    return WithCommon({"spans": spans, "extras": list(numbers), "int96": list(file.int96)}, common=text)


def from_document(document: WithCommon) -> TableFile:
    """Returns the TableFile from which `to_document` made the JSON form."""
    value = document.value
    extras = value["extras"]
    spans = [Span(records, size, offset, extras[number]) for records, size, offset, number in value["spans"]]
    return TableFile(_schema_of(document.common), spans, value["int96"])


@lru_cache(maxsize=16)
def _schema_of(text: str) -> pa.Schema:
    """Returns the schema from which `schema_text` made the text. Cached, because most files of a source have the same schema."""
    return parse_schema(text)
