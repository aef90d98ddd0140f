"""Advice on what to change when a bad record ends a job.

Leaving the record out is the right advice only if the record itself is wrong. Otherwise, the job or its code has to be corrected.
"""

import json
import re
from collections.abc import Mapping
from typing import Final

from dataprep_api.spec import DataPrepJobSpec
from dataprep_api.spec.sources.csv_sequences import CsvSequencesSource
from dataprep_converter.dataset.frame_rows import engine_of

_OUTSIDE: Final = re.compile(r"(?:.*: )?(?P<name>.+) (?P<value>-?\d+) is outside 0\.\.\d+")
_ENCODING: Final = "is not UTF-8"
_PLUGIN: Final = "the plug-in "
_NO_NUMBER: Final = re.compile(r"(?:.*: )?'(?P<text>[^']*)' is not a (?:Int64|Float32|Float64|Bool) \(column '(?P<name>[^']+)'\)")
_NUMBER: Final = re.compile(
    r"(?:.*: )?'?(?=[^']*?[.eE])(?:[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?|\[[0-9.eE+, -]*(?:\]|…))'?"
    r" is not a (?P<type>(?:list of )?(?:Int64|Float32)) \(column '(?P<name>[^']+)'\)"
)
"""Matches the reason of a bad record whose number doesn't fit its column, but would fit in a Float64 column.

Whole numbers aren't matched, because whole numbers that don't fit in Int64 would be rounded.
"""
_NO_VALUE: Final = re.compile(r"(?P<before>.*?)column '(?P<name>[^']+)' (?:has no value|is empty)\b.* no default.*")
"""Matches the reason of a bad record that has a null in a sequence. The steps of a sequence can't be null."""
_MISSING: Final = frozenset(("na", "n/a", "nil", "null", "none", "-", "--", "?", "."))
"""Words, in lower case, that people write for a missing value."""
_EXAMPLES: Final[Mapping[str, str]] = {"Int64": '"0"', "Float32": '"NaN"', "Float64": '"NaN"', "Bool": '"false"', "String": '"none"'}
"""For each CSV column type, an example default as written in the spec."""
_SKIP: Final = "onBadRecord.policy: Skip to leave such records out."


def advice_for(reason: str, spec: DataPrepJobSpec, *, first: str = "the first file") -> str:
    """For a job whose policy is `Fail`, returns the advice that follows a record's fault in the error message.

    `first` is the URI of the first file with records. If the spec doesn't list the columns, their types are inferred from this file.
    """
    engine = None if spec.source is None else engine_of(spec.source)
    if engine is not None:
        return f"Correct such rows in the {engine.frame}, or leave them out with {engine.filtering}."
    outside = _OUTSIDE.fullmatch(reason)
    label = next(
        (each for each in spec.labels or [] if outside is not None and each.name == outside["name"] and each.num_classes is not None), None
    )
    if outside is not None and label is not None:
        value = int(outside["value"])
        if value < 0:
            return f"Classes are numbered from 0; use a vocabulary in transforms to number the values of {label.name!r}."
        return f"If {value} is a class, numClasses of the label {label.name!r} must be at least {value + 1}, got {label.num_classes}."
    word = _NO_NUMBER.fullmatch(reason)
    if word is not None and spec.source is not None and spec.source.csv is not None and word["text"].strip().lower() in _MISSING:
        words = json.dumps({word["name"]: [word["text"]]}, ensure_ascii=False)
        return f"If {word['text']!r} is a missing value, add nullWordsOf: {words} to source.csv. Otherwise, set {_SKIP}"
    number = _NUMBER.fullmatch(reason)
    if number is not None and (listed := _columns_to_list(spec)) is not None:
        is_list = ", list: true" if number["type"].startswith("list") else ""
        column = f"{{name: {json.dumps(number['name'], ensure_ascii=False)}, type: Float64{is_list}}}"
        return (
            f"The first rows of {first} make the column a {number['type']}; to read such numbers, list the columns in {listed}, "
            f"with {column}. Otherwise, set {_SKIP}"
        )
    no_value = _NO_VALUE.fullmatch(reason)
    if no_value is not None and (default := _default_in_sequence(no_value["before"], no_value["name"], spec)) is not None:
        return f"The steps of a sequence can't be null; {default}. Otherwise, set {_SKIP}"
    if _ENCODING in reason:
        return f"If the file has another encoding, name it in the source, such as encoding: Latin1. Otherwise, set {_SKIP}"
    if _PLUGIN in reason:
        return f"Correct the function, or set {_SKIP}"
    return f"Set {_SKIP}"


def _columns_to_list(spec: DataPrepJobSpec) -> str | None:
    """Returns the field in which to list the columns with their types, or None if the source's types aren't inferred."""
    source = spec.source
    if source is not None and source.csv is not None and source.csv.columns is None:
        return "source.csv.columns"
    return "source.jsonl.columns" if source is not None and source.jsonl is not None and source.jsonl.columns is None else None


def _default_in_sequence(before: str, column: str, spec: DataPrepJobSpec) -> str | None:
    """If a column's source or table has sequences, returns the advice on how to give the column a default. Otherwise, returns None.

    `before` is the part of the reason that precedes the column's name. For a joined table, this part begins with the table's name.
    """
    source = spec.source
    if source is not None and source.csv_sequences is not None:
        return _default_of_cells(before, column, source.csv_sequences, of="source.csvSequences")
    tables = source.join.tables if source is not None and source.join is not None else []
    number, table = next(((number, each) for number, each in enumerate(tables) if before.startswith(f"{each.name}: ")), (0, None))
    if table is None or (table.order_by is None and table.source.csv_sequences is None):
        return None
    place = f"source.join.tables[{number}].source"
    if table.source.csv_sequences is not None:
        return _default_of_cells(before, column, table.source.csv_sequences, of=f"{place}.csvSequences")
    field = "recordDefaults" if table.source.kind == "table" else "defaults"
    key = json.dumps(column, ensure_ascii=False)
    return f'add {field}: {{{key}: "0"}}, or another value of its type, to {place}.{table.source.kind}'


def _default_of_cells(before: str, column: str, source: CsvSequencesSource, *, of: str) -> str:
    """Returns the advice on how to give a CSV column a default. `before` says whether the column belongs to the label files."""
    is_label = "its labels, " in before and source.labels is not None
    columns = source.labels.columns if is_label and source.labels is not None else source.columns
    place = f"{of}.labels.columns" if is_label else f"{of}.columns"
    listed = next((each for each in columns or [] if each.name == column), None)
    if listed is not None:
        return f"add default: {_EXAMPLES[listed.type]} to the column {column!r} in {place}"
    key = json.dumps(column, ensure_ascii=False)
    return f"list the columns in {place}, with {{name: {key}, type: Float32, default: {_EXAMPLES['Float32']}}}"
