"""Data sets made by scripts: which files are outputs of the script, and which of the outputs are read as records.

The steps of a script's job use this module. For existing data sets, this module is also used by `verify`, by `inspect`, and by runs that
take over a folder.
"""

import re
from collections.abc import Iterable, Sequence
from typing import Final

from dataprep_api.dataset.report import Manifest
from dataprep_converter.core import globs
from dataprep_converter.formats.registry import FORMATS

READER: Final = "script"
"""The value of `reader` in the plan of a script's job."""


def matching(patterns: Iterable[str], paths: Iterable[str]) -> dict[str, list[str]]:
    """Returns a dict that maps each pattern to the sorted paths that match the pattern."""
    ordered = sorted(paths)
    return {pattern: [path for path in ordered if path == pattern or compiled.fullmatch(path)] for pattern, compiled in _compile(patterns)}


def match_any(patterns: Sequence[str], paths: Iterable[str]) -> set[str]:
    """Returns the paths that match any pattern."""
    return {path for matches in matching(patterns, paths).values() for path in matches}


def holds_records(path: str, *, format_: str) -> bool:
    """Returns whether an output file of a script is read record by record, judging by the file's name.

    In record formats, a file without an extension is also read if its name ends in a digit. TensorFlow uses such names, for example
    `train-00000-of-00008`.
    """
    name = path.rpartition("/")[2].lower().removesuffix(".gz")
    extensions = FORMATS[format_].script_extensions if format_ in FORMATS else ()
    _, dot, extension = name.rpartition(".")
    return extension in extensions if dot else bool(extensions) and name[-1:].isdigit()


def is_read(path: str, manifest: Manifest) -> bool:
    """Returns whether a file of a finished data set is read record by record. Works for all data sets, including data sets that scripts
    made."""
    return READER not in manifest.content or holds_records(path, format_=manifest.format)


def _compile(patterns: Iterable[str]) -> list[tuple[str, re.Pattern[str]]]:
    return [(pattern, globs.compiled(pattern)) for pattern in dict.fromkeys(patterns)]
