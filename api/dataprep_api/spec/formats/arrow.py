"""Options of the format `arrow`."""

from typing import Annotated, Literal

from pydantic import Field

from dataprep_api.spec.model import Model, Quantity


class ArrowOptions(Model):
    """Options of the format `arrow`. A record batch ends where one of its two limits is reached."""

    batch_size: Quantity = "8Mi"
    """Bytes per record batch, at most. Counted before compression; a worker holds about this much in memory. A larger record is a batch of its own."""
    batch_records: Annotated[int, Field(ge=1)] | None = None
    """Records per batch, at most. Default: no limit."""
    compression: Literal["None", "Lz4", "Zstd"] = "None"
    """Buffer compression. Files without it can be memory-mapped."""
