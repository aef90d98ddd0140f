"""Options of the format `arrow`."""

from typing import Annotated, Literal

from pydantic import Field

from dataprep_api.spec.model import Model, Quantity


class ArrowOptions(Model):
    """Options of the format `arrow`. A record batch ends where one of its two limits is reached."""

    batch_size: Quantity = "8Mi"
    """Most bytes of a record batch before compression, which is about what a worker holds in memory. A larger record is a batch by itself."""
    batch_records: Annotated[int, Field(ge=1)] | None = None
    """Most records of a record batch. Default: no limit."""
    compression: Literal["None", "Lz4", "Zstd"] = "None"
    """Compression of the buffers. Files without can be mapped into memory."""
