"""The files of a script's data set: which files are its outputs, and which of these are read as records.

Used by the steps of a script's job, and for existing data sets by `verify`, `inspect` and runs that take over a folder.
"""

import re
from collections.abc import Iterable, Sequence
from typing import Final

from dataprep_api.dataset.report import Manifest
from dataprep_converter.core import globs
from dataprep_converter.formats.registry import FORMATS

READER: Final = "script"
"""The value of `reader` in the plan of such a job."""


def matching(patterns: Iterable[str], paths: Iterable[str]) -> dict[str, list[str]]:
    """The paths that match each pattern, in order."""
    known = sorted(paths)
    return {pattern: [path for path in known if path == pattern or compiled.fullmatch(path)] for pattern, compiled in _compile(patterns)}


def match_any(patterns: Sequence[str], paths: Iterable[str]) -> set[str]:
    """The paths that match any pattern."""
    return {path for found in matching(patterns, paths).values() for path in found}


def holds_records(path: str, *, format_: str) -> bool:
    """Whether a file of a script is read record by record. Decided by its name, as nothing else tells its content.

    In a format of records, a name that ends in a digit and has no extension counts too: those are TensorFlow's own names, such as
    `train-00000-of-00008`.
    """
    name = path.rpartition("/")[2].lower().removesuffix(".gz")
    extensions = FORMATS[format_].script_extensions if format_ in FORMATS else ()
    _, dot, extension = name.rpartition(".")
    return extension in extensions if dot else bool(extensions) and name[-1:].isdigit()


def is_read(path: str, manifest: Manifest) -> bool:
    """The same for a file of any finished data set."""
    return READER not in manifest.content or holds_records(path, format_=manifest.format)


def _compile(patterns: Iterable[str]) -> list[tuple[str, re.Pattern[str]]]:
    return [(pattern, globs.compiled(pattern)) for pattern in dict.fromkeys(patterns)]
