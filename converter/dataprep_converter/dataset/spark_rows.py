"""Data sets of rows from a Spark DataFrame (`dataprep_spark`). Such rows exist only while the DataFrame is written, so nobody can read them
again."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from dataprep_api.spec import Source

READER: Final = "arrow"
"""The kind of source in the spec, because Spark passes the rows as Arrow batches. The columns follow the rules of this source."""
URI: Final = "spark:DataFrame"
"""The only URI in the spec's source."""


def source(nested: Sequence[str] | None = None) -> dict[str, Any]:
    """Returns the source in the spec of such a data set. `nested` are the structs and lists that the data set keeps as nested values."""
    return {READER: {"uris": [URI], **({} if nested is None else {"nested": list(nested)})}}


def is_of_spark(source: Source) -> bool:
    """Returns whether this is the source of a data set that Spark writes."""
    return source.arrow is not None and list(source.arrow.uris) == [URI]


def is_content_of_spark(content: Mapping[str, Any]) -> bool:
    """Returns whether this is `Manifest.content` of a data set that Spark has written."""
    return bool(content.get("source", {}).get(READER, {}).get("uris") == [URI])
