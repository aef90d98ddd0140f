"""Data sets of rows that a Python program has in memory or makes (`dataprep_io.write`). Nobody can read such rows again."""

from collections.abc import Sequence
from typing import Any, Final

from dataprep_api.spec import Source

_READER: Final = "arrow"
"""The kind of source in the spec, because the rows come as Arrow batches. The columns follow the rules of this source."""
URI: Final = "python:data"
"""The only URI in the spec's source."""


def source(nested: Sequence[str] = ()) -> dict[str, Any]:
    """Returns the source in the spec of such a data set. `nested` are the structs and lists that the data set keeps as nested values."""
    return {_READER: {"uris": [URI], **({"nested": list(nested)} if nested else {})}}


def is_of_python(source: Source) -> bool:
    """Returns whether this is the source of a data set that `dataprep_io.write` writes."""
    return source.arrow is not None and list(source.arrow.uris) == [URI]
