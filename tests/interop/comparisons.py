"""Collects the data sets that third-party readers have read correctly. `make interop` writes them to `docs/interop.md`."""

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_REPORT: Final = "INTEROP_REPORT"
_HEAD: Final = """\
# Output read by other programs

`make interop` writes this page. Third-party programs read data sets that `dataprep run` has made, and the tests compare every field of
every record with the input. The table lists only successful comparisons. The inputs and the expected records are in
`tests/interop/data_sets.py`. Inputs that this file doesn't define are in the test of the reader.

| format | reader | source | records | fields compared |
|---|---|---|---|---|
"""


@dataclass(frozen=True, order=True)
class Comparison:
    """A successful comparison of a reader's records with a data set."""

    format: str
    reader: str
    source: str
    records: int
    fields: tuple[str, ...]


_made: Final[set[Comparison]] = set()


def compared(*, format: str, reader: str, versions: Mapping[str, str], source: str, records: int, fields: Iterable[str]) -> None:  # noqa: A002
    """Adds a data set that the reader has read correctly; `versions` are those of the reader's packages."""
    named = ", ".join(f"{name} {version}" for name, version in sorted(versions.items()))
    _made.add(Comparison(format=format, reader=f"{reader} ({named})", source=source, records=records, fields=tuple(fields)))


def page() -> str:
    """Returns the page as Markdown."""
    lines = [
        f"| `{each.format}` | {each.reader} | `{each.source}` | {each.records:,} | {', '.join(f'`{field}`' for field in each.fields)} |\n"
        for each in sorted(_made)
    ]
    return _HEAD + "".join(lines)


def write_when_asked() -> None:
    """Writes the report to the path in INTEROP_REPORT, if set."""
    if wanted := os.environ.get(_REPORT):
        Path(wanted).write_text(page(), encoding="utf-8")
