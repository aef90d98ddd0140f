"""Options for the format `csv`."""

from typing import Annotated, Literal

from pydantic import Field

from dataprep_api.spec.model import Model


class CsvOptions(Model):
    """Options for `csv`. SageMaker's built-in algorithms need `header: false` and `labelsFirst: true`."""

    header: bool = True
    """Whether to write a header. The header is the first line of every file and names the columns."""
    delimiter: Annotated[str, Field(min_length=1, max_length=1)] = ","
    """Cell separator. The separator is an ASCII character that can't occur in numbers or line ends."""
    labels_first: bool = False
    """Whether labels come before features."""
    bytes: Literal["Refuse", "Text"] = "Refuse"
    """`Refuse` byte features, or write them as `Text`. `Text` is for bytes that are UTF-8. Other bytes fail the job. Text columns are always written."""
    compression: Literal["None", "Gzip"] = "None"
    """`Gzip` compresses each shard."""
    compression_level: Annotated[int, Field(ge=1, le=9)] = 6
    """Gzip level."""
