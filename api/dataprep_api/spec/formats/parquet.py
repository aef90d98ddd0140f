"""Options of the format `parquet`."""

from typing import Annotated, Literal

from pydantic import Field

from dataprep_api.spec.model import Column, Model, Quantity


class HuggingFace(Model):
    """Columns as Hugging Face's `datasets` knows them."""

    images: Annotated[list[Column], Field(max_length=16)] | None = None
    """Features of bytes that are images. Default: `image` and `image/encoded`, where they exist."""


class ParquetOptions(Model):
    """Options of the format `parquet`. A row group ends where one of its two limits is reached."""

    row_group_size: Quantity = "32Mi"
    """Bytes per row group, at most. Counted before encoding and compression, with at least four for a number. A worker needs about five times as much memory. A larger record is a row group of its own."""
    row_group_records: Annotated[int, Field(ge=1)] | None = None
    """Records per row group, at most. Default: no limit."""
    compression: Literal["None", "Snappy", "Zstd", "Gzip"] = "Snappy"
    """Page compression."""
    compression_level: Annotated[int, Field(ge=1, le=22)] | None = None
    """Level of Zstd (1-22) or Gzip (1-9). Default: 3 and 6."""
    hugging_face: HuggingFace | None = None
    """Hugging Face metadata. With it, even as `{}`, images and class names are stored so that `datasets` decodes them."""
