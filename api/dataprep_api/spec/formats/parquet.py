"""Options of the format `parquet`."""

from typing import Annotated, Literal

from pydantic import Field

from dataprep_api.spec.model import Column, Model, Quantity


class HuggingFace(Model):
    """Columns as Hugging Face's `datasets` knows them."""

    images: Annotated[list[Column], Field(max_length=16)] | None = None
    """Features of bytes that are images. Default: `image` and `image/encoded`, where they are there."""


class ParquetOptions(Model):
    """Options of the format `parquet`. A row group ends where one of its two limits is reached."""

    row_group_size: Quantity = "32Mi"
    """Most bytes of a row group before encoding and compression, where a number has at least four. A worker needs about five times as much memory. A larger record is a row group by itself."""
    row_group_records: Annotated[int, Field(ge=1)] | None = None
    """Most records of a row group. Default: no limit."""
    compression: Literal["None", "Snappy", "Zstd", "Gzip"] = "Snappy"
    """Compression of the pages."""
    compression_level: Annotated[int, Field(ge=1, le=22)] | None = None
    """Level of Zstd (1 to 22) or Gzip (1 to 9). Default: 3 and 6."""
    hugging_face: HuggingFace | None = None
    """With it, also `{}`, images and class names are stored so that Hugging Face's `datasets` decodes them."""
