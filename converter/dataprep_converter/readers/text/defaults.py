"""Adds the values of a source's `defaults`, which are keyed by column name, to the columns of text files."""

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeVar, cast

from dataprep_api.spec import CsvColumn
from dataprep_api.spec.sources.jsonl import JsonlColumn
from dataprep_converter.core.errors import BadSpec
from dataprep_converter.readers.text.json_nested import NestedColumn
from dataprep_converter.records.columns import format_names, similar

C = TypeVar("C", bound=CsvColumn | JsonlColumn | NestedColumn)


def with_defaults(columns: Sequence[C], defaults: Mapping[str, str] | None, *, of: str) -> list[C]:
    """Returns the columns with their defaults. Raises BadSpec for a default whose column doesn't exist or already has a default.

    `of` is the source's name in messages, such as `source.csv`. If there are no columns, because there are no files, returns an empty list.
    """
    rest = dict(defaults or {})
    completed: list[C] = []
    for column in columns:
        default = rest.pop(column.name, None)
        if default is not None and column.default is not None:
            raise BadSpec(f"{of}: the column {column.name!r} has a default in columns and in defaults; leave one of them out.")
        completed.append(column if default is None else cast("C", column.model_copy(update={"default": default})))
    check_exist(rest, columns, of=f"{of}.defaults")
    return completed


def check_exist(named: Iterable[str], columns: Sequence[C], *, of: str) -> None:
    """Raises BadSpec for a name that no column has.

    Accepts any name if there are no columns. `of` is the field of the spec that contains the names.
    """
    names = [column.name for column in columns]
    for name in named if columns else ():
        if name not in names:
            raise BadSpec(f"{of}: there is no column {name!r}.{similar(name, names)} The columns are {format_names(names)}.")
