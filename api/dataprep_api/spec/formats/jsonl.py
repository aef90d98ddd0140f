"""Options of the format `jsonl`."""

from typing import Annotated, Literal

from pydantic import Field

from dataprep_api.spec.model import Model


class JsonlOptions(Model):
    """Options of the format `jsonl`."""

    bytes: Literal["Base64", "Text"] = "Base64"
    """How bytes are written. `Text` is for UTF-8; any other value fails the job. Text columns are always text."""
    non_finite: Literal["Fail", "Null", "Text", "Literal"] = "Fail"
    """NaN and infinities, which JSON lacks. `Fail`: the job fails. `Null`: `null`. `Text`: the strings `"NaN"`, `"Infinity"`, `"-Infinity"`. `Literal`: the bare words, which Python, Spark and our own source read."""
    compression: Literal["None", "Gzip"] = "None"
    """`Gzip` compresses each shard."""
    compression_level: Annotated[int, Field(ge=1, le=9)] = 6
    """Gzip level."""
