"""Options for the format `parquet`."""

from typing import Annotated, Literal

from pydantic import Field

from dataprep_api.spec.model import Column, Model, Quantity


class HuggingFace(Model):
    """Metadata for Hugging Face's `datasets`."""

    images: Annotated[list[Column], Field(max_length=16)] | None = None
    """Byte features that contain images. Default: `image` and `image/encoded`, if they exist."""


class ParquetOptions(Model):
    """Options for `parquet`. A row group ends when `rowGroupSize` or `rowGroupRecords` is reached."""

    row_group_size: Quantity = "32Mi"
    """Maximum bytes per row group. Bytes are counted before encoding and compression, and a number counts as at least four bytes. A worker needs about five times this size in memory. A record that is larger than this gets a separate row group."""
    row_group_records: Annotated[int, Field(ge=1)] | None = None
    """Maximum records per row group. Default: no limit."""
    compression: Literal["None", "Snappy", "Zstd", "Gzip"] = "Snappy"
    """Compression of pages."""
    compression_level: Annotated[int, Field(ge=1, le=22)] | None = None
    """Compression level. The level is 1 to 22 for Zstd, and 1 to 9 for Gzip. Default: 3 for Zstd and 6 for Gzip."""
    hugging_face: HuggingFace | None = None
    """Metadata for Hugging Face's `datasets`. If set, even to `{}`, images and class names are stored so that `datasets` decodes them."""
