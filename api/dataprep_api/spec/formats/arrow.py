"""Options for the format `arrow`."""

from typing import Annotated, Literal

from pydantic import Field

from dataprep_api.spec.model import Model, Quantity


class ArrowOptions(Model):
    """Options for `arrow`. A record batch ends when `batchSize` or `batchRecords` is reached."""

    batch_size: Quantity = "8Mi"
    """Maximum bytes per record batch. Bytes are counted before compression. A worker keeps about one record batch in memory. A record that is larger than this gets a separate batch."""
    batch_records: Annotated[int, Field(ge=1)] | None = None
    """Maximum records per batch. Default: no limit."""
    compression: Literal["None", "Lz4", "Zstd"] = "None"
    """Buffer compression. Files without compression can be memory-mapped."""
