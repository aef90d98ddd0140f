"""Options of the format `arrayRecord`."""

from typing import Annotated, Literal

from pydantic import Field

from dataprep_api.spec.model import Model


class ArrayRecordOptions(Model):
    """Options of the format `arrayRecord`: Grain's files of tf.train.Example, with access to any record."""

    compression: Literal["None", "Zstd", "Brotli", "Snappy"] = "Zstd"
    """Compression of record groups."""
    group_size: Annotated[int, Field(ge=1, le=1_000_000)] = 1
    """Records per group. A group is read and decompressed as a whole. Grain expects 1 for random access; larger groups make smaller files."""
