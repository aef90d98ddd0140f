"""Options for the format `jsonl`."""

from typing import Annotated, Literal

from pydantic import Field

from dataprep_api.spec.model import Model


class JsonlOptions(Model):
    """Options for `jsonl`."""

    bytes: Literal["Base64", "Text"] = "Base64"
    """How bytes are written. `Text` is for bytes that are UTF-8. Other bytes fail the job. Text columns are always written as text."""
    non_finite: Literal["Fail", "Null", "Text", "Literal"] = "Fail"
    """How to write NaN and infinities. JSON can't represent these values as numbers. `Fail`: the job fails. `Null`: as `null`. `Text`: as the strings `"NaN"`, `"Infinity"`, `"-Infinity"`. `Literal`: as these words without quotes, which Python, Spark and the source `jsonl` can read."""
    compression: Literal["None", "Gzip"] = "None"
    """`Gzip` compresses each shard."""
    compression_level: Annotated[int, Field(ge=1, le=9)] = 6
    """Gzip level."""
