"""What to change when a bad record ends a job. Leaving the record out is right only if nothing else is wrong."""

import json
import re
from typing import Final

from dataprep_api.spec import DataPrepJobSpec

_OUTSIDE: Final = re.compile(r"(?:.*: )?(?P<name>.+) (?P<value>-?\d+) is outside 0\.\.\d+")
_ENCODING: Final = "is not UTF-8"
_PLUGIN: Final = "the plug-in "
_NO_NUMBER: Final = re.compile(r"(?:.*: )?'(?P<text>[^']*)' is not a (?:Int64|Float32|Float64|Bool) \(column '(?P<name>[^']+)'\)")
_NUMBER: Final = re.compile(
    r"(?:.*: )?'?(?:[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?|\[[0-9.eE+, -]*(?:\]|…))'?"
    r" is not a (?P<type>(?:list of )?(?:Int64|Float32)) \(column '(?P<name>[^']+)'\)"
)
"""The reasons of numbers that a column of Float64 can hold."""
_MISSING: Final = frozenset(("na", "n/a", "nil", "null", "none", "-", "--", "?", "."))
"""In lower case, words that people write for a missing value."""
_SKIP: Final = "onBadRecord.policy: Skip to leave such records out."


def advice_for(reason: str, spec: DataPrepJobSpec, *, first: str = "the first file") -> str:
    """Returns the advice that follows the fault of a record, in the error message of a job whose policy is `Fail`.

    `first` is the URI of the first file with records. Types of columns that the spec doesn't list come from this file.
    """
    outside = _OUTSIDE.fullmatch(reason)
    label = next(
        (each for each in spec.labels or [] if outside is not None and each.name == outside["name"] and each.num_classes is not None), None
    )
    if outside is not None and label is not None:
        value = int(outside["value"])
        if value < 0:
            return f"Classes are numbered from 0; number the values of {label.name!r} by a vocabulary in transforms."
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
            f"The first rows of {first} make it a {number['type']}; to read such numbers, list the columns in {listed}, with {column}. "
            f"Otherwise, set {_SKIP}"
        )
    if _ENCODING in reason:
        return f"If the file has another encoding, name it in the source, such as encoding: Latin1. Otherwise, set {_SKIP}"
    if _PLUGIN in reason:
        return f"Correct the function, or set {_SKIP}"
    return f"Set {_SKIP}"


def _columns_to_list(spec: DataPrepJobSpec) -> str | None:
    """Returns the field that would have the types of the columns, if the source's types are inferred."""
    source = spec.source
    if source is not None and source.csv is not None and source.csv.columns is None:
        return "source.csv.columns"
    return "source.jsonl.columns" if source is not None and source.jsonl is not None and source.jsonl.columns is None else None
