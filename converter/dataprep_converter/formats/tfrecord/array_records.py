"""The library array_record, which writes and reads ArrayRecord files: it is not always installed, and it wants paths.

Its files are given it as `/proc/self/fd/<n>`, so that they need no name, and nothing is left of them when a process is killed.
"""

from typing import Any

from dataprep_converter.core.errors import BadSpec
from dataprep_converter.runtime.temporary import TemporaryFile


def library() -> Any:
    """Its module; it has no types. Raises BadSpec saying what to install."""
    try:
        from array_record.python import array_record_module  # type: ignore[import-untyped]  # it has no types
    except ImportError as exc:
        raise BadSpec("The format arrayRecord needs the package array-record: pip install 'dataprep-operator[arrayrecord]'.") from exc
    return array_record_module


def path_of(file: TemporaryFile) -> str:
    """A path under which an open file can be opened again by this process."""
    return f"/proc/self/fd/{file.descriptor}"
