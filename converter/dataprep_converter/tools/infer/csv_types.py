"""Decides whether a job must list a CSV file's columns. This is necessary if the types that the planner would infer don't fit all cells.

The planner treats a column as numeric if nearly all of its cells are numbers; the records with other cells become bad records. If `infer`
finds a cell that isn't a number, it declares the column as text. `infer` also looks at more rows than the planner.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from dataprep_converter.core.errors import BadSample
from dataprep_converter.readers.text.csv_cells import Dialect
from dataprep_converter.readers.text.csv_inference import Kind, kinds_of, with_missing
from dataprep_converter.readers.text.csv_starts import INFERRED_BYTES, Preamble

_MOST_COLUMNS: Final = 1024
"""Maximum number of columns in `source.csv.columns`."""
_MOST_SHOWN: Final = 20


@dataclass(frozen=True)
class CsvTypes:
    """The column types of a CSV file."""

    types: Mapping[str, str]
    misfits: Mapping[str, Kind]
    """The columns that are text only because a few cells don't have `Kind.type`, the type of all other cells."""
    planned: Mapping[str, str]
    """The types that the planner infers."""

    @property
    def must_be_listed(self) -> bool:
        """Whether the planner would infer types that don't fit all cells."""
        differ = any(
            self.planned[name] != kind for name, kind in self.types.items() if {kind, self.planned[name]} != {"Float32", "Float64"}
        )
        return differ and len(self.types) <= _MOST_COLUMNS

    def notes(self) -> Iterator[str]:
        """Yields the reasons why columns are text."""
        for name, kind in list(self.misfits.items())[:_MOST_SHOWN]:
            yield (
                f"column {name} is text, because of {kind.cells:,} cells, {kind.misfits}; if such cells are wrong, "
                f"give the column the type {kind.type} and set onBadRecord.policy: Skip"
            )


@dataclass(frozen=True)
class Body:
    """The rows at the beginning of a file, and the names in the header above them."""

    names: Sequence[str] | None
    """None if there is no header."""
    rows: bytes


def body_of(text: bytes, *, delimiter: str, skip_lines: int, header: bool) -> Body:
    """Returns the header names and the rows at the beginning of a file."""
    try:
        start = Preamble(Dialect(delimiter, '"'), skip_lines, header).strip_from(text, at_end=True)
    except BadSample:
        return Body(None, b"")
    if start is None:
        return Body(None, b"")
    return Body(start.names, start.data.rstrip(b"\n") + b"\n" if start.data.strip() else b"")


def types_of(
    text: bytes, words: Mapping[str, Sequence[str]], *, more: bytes, delimiter: str, skip_lines: int, header: bool
) -> CsvTypes | None:
    """Returns the types, or None for text that isn't CSV.

    `text` is the beginning of a file as UTF-8, `more` contains rows of other files, and `words` maps columns to their missing-value words.
    """
    dialect = Dialect(delimiter, '"', by_column={name: tuple(each) for name, each in words.items()})
    try:
        start = Preamble(dialect, skip_lines, header).strip_from(text, at_end=True)
        if start is None or not start.data.strip():
            return None
        first = start.data[: int(dialect.rows(start.data).stops[0])]
        names = start.names or [str(number) for number in range(len(dialect.cells(first)))]
        sample = start.data[:INFERRED_BYTES]
        sample = sample[: dialect.rows(sample, at_end=len(sample) == len(start.data)).size] or start.data
        planned = kinds_of(sample, names, with_missing(dialect, rule=2), rule=2)
        rows = start.data.rstrip(b"\n") + b"\n" + more
        kinds = planned if len(sample) == len(start.data) and not more else kinds_of(rows, names, with_missing(dialect, rule=2), rule=2)
    except (BadSample, pa.ArrowInvalid, IndexError):
        return None
    misfits = {name: kind for name, kind in zip(names, kinds, strict=True) if kind.misfits}
    return CsvTypes(
        types={name: "String" if name in misfits else kind.type for name, kind in zip(names, kinds, strict=True)},
        misfits=misfits,
        planned={name: kind.type for name, kind in zip(names, planned, strict=True)},
    )
