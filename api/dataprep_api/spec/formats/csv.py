"""Options of the format `csv`."""

from typing import Annotated, Literal

from pydantic import Field

from dataprep_api.spec.model import Model


class CsvOptions(Model):
    """Options of the format `csv`. SageMaker's own algorithms want `header: false` and `labelsFirst: true`."""

    header: bool = True
    """Whether the first line of every file names the columns."""
    delimiter: Annotated[str, Field(min_length=1, max_length=1)] = ","
    """Separator of the cells: an ASCII character that is in no number and no line end."""
    labels_first: bool = False
    """Whether the labels stand before the features."""
    bytes: Literal["Refuse", "Text"] = "Refuse"
    """Whether features of bytes are refused, or written because they are UTF-8; a value that is not makes the job fail. Columns of text are always written."""
    compression: Literal["None", "Gzip"] = "None"
    """`Gzip` compresses each shard."""
    compression_level: Annotated[int, Field(ge=1, le=9)] = 6
    """Level of gzip."""
