"""Options of the format `csv`."""

from typing import Annotated, Literal

from pydantic import Field

from dataprep_api.spec.model import Model


class CsvOptions(Model):
    """Options of the format `csv`. SageMaker's own algorithms want `header: false` and `labelsFirst: true`."""

    header: bool = True
    """Whether to write a header. It is the first line of every file and names the columns."""
    delimiter: Annotated[str, Field(min_length=1, max_length=1)] = ","
    """Cell separator. An ASCII character that occurs in no number or line end."""
    labels_first: bool = False
    """Whether labels come before features."""
    bytes: Literal["Refuse", "Text"] = "Refuse"
    """`Refuse` features of bytes, or write `Text`. They must then be UTF-8; any other value fails the job. Text columns are always written."""
    compression: Literal["None", "Gzip"] = "None"
    """`Gzip` compresses each shard."""
    compression_level: Annotated[int, Field(ge=1, le=9)] = 6
    """Gzip level."""
