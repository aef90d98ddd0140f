"""Options of the format `jsonl`."""

from typing import Annotated, Literal

from pydantic import Field

from dataprep_api.spec.model import Model


class JsonlOptions(Model):
    """Options of the format `jsonl`."""

    bytes: Literal["Base64", "Text"] = "Base64"
    """How features of bytes are written. `Text` is for those that are UTF-8; a value that is not makes the job fail. Columns of text are always text."""
    non_finite: Literal["Fail", "Null", "Text", "Literal"] = "Fail"
    """What becomes of NaN and the infinities, which JSON has not: the job fails, `null`, the strings `"NaN"`, `"Infinity"`, `"-Infinity"`, or the bare words that Python, Spark and our own source read."""
    compression: Literal["None", "Gzip"] = "None"
    """`Gzip` compresses each shard."""
    compression_level: Annotated[int, Field(ge=1, le=9)] = 6
    """Level of gzip."""
