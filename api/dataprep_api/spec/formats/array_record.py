"""Options for the format `arrayRecord`."""

from typing import Annotated, Literal

from pydantic import Field

from dataprep_api.spec.model import Model


class ArrayRecordOptions(Model):
    """Options for `arrayRecord`: Grain's files of tf.train.Example, with random access to records."""

    compression: Literal["None", "Zstd", "Brotli", "Snappy"] = "Zstd"
    """Compression of record groups."""
    group_size: Annotated[int, Field(ge=1, le=1_000_000)] = 1
    """Records per group. A group is read and decompressed as a whole. For random access, Grain expects 1. Larger groups make smaller files."""
