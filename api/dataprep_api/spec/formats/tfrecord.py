"""Options for the format `tfrecord`."""

from typing import Annotated, Literal

from pydantic import Field

from dataprep_api.spec.model import Model


class TfrecordOptions(Model):
    """Options for `tfrecord`."""

    compression: Literal["None", "Gzip"] = "None"
    """`Gzip` compresses each shard. TensorFlow reads such shards with `compression_type="GZIP"`."""
    compression_level: Annotated[int, Field(ge=1, le=9)] = 6
    """Gzip level."""
