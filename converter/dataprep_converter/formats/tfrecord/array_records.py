"""The array_record library, which writes and reads ArrayRecord files. The library is an optional dependency and accepts only paths.

Each file is passed to the library as the path `/proc/self/fd/<n>`. So the files need no names, and no file is left behind when a process is
killed.
"""

from typing import Any

from dataprep_converter.core.errors import BadSpec
from dataprep_converter.runtime.temporary import TemporaryFile


def library() -> Any:
    """Return the library's module, which has no type annotations. Raises BadSpec, naming the package, if it isn't installed."""
    try:
        from array_record.python import array_record_module  # type: ignore[import-untyped]  # it has no types
    except ImportError as exc:
        raise BadSpec("The format arrayRecord needs the package array-record: pip install 'dataprep-operator[arrayrecord]'.") from exc
    return array_record_module


def path_of(file: TemporaryFile) -> str:
    """Return a path through which this process can open an already open file again."""
    return f"/proc/self/fd/{file.descriptor}"
