"""Encoder for Parquet. Row groups have a fixed size, and each is held in memory until it is complete.

The footer contains Arrow's name and version, but nothing about the job. So with the same version of Arrow, equal records give equal bytes.
The manifest contains the version of Arrow. Pages have checksums.
"""

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from dataprep_api import quantity
from dataprep_api.spec import Output
from dataprep_converter.core.errors import BadSpec
from dataprep_converter.formats.columnar import hugging_face
from dataprep_converter.formats.columnar.tables_encoder import LARGEST_GROUP, Groups, Pieces
from dataprep_converter.formats.encoder import SingleFile
from dataprep_converter.formats.nested.descriptions import plain_type
from dataprep_converter.records.feature import FeatureSpec

_LEVELS: Final = {"Zstd": (3, 22), "Gzip": (6, 9)}
"""The default level and the highest level of each compression that has levels."""
_LEAST: Final = 4
"""The size of Parquet's smallest numeric type in bytes."""
_parquet: Any = pq  # the type stubs don't cover all options


class ParquetEncoder(SingleFile):
    """Encodes one Parquet file."""

    def __init__(self, output: Output, features: Sequence[FeatureSpec]) -> None:
        options = output.parquet
        most_bytes = quantity.to_bytes(options.row_group_size)
        if most_bytes > LARGEST_GROUP:
            raise BadSpec(f"output.parquet.rowGroupSize must be at most 1Gi, got {options.row_group_size}.")
        level = options.compression_level
        default, highest = _LEVELS.get(options.compression, (None, 0))
        if level is not None and level > highest:
            levels = ", ".join(f"{name} (1 to {most})" for name, (_, most) in _LEVELS.items())
            raise BadSpec(
                f"output.parquet.compressionLevel {level} isn't a level of {options.compression}; these compressions have levels: {levels}."
            )
        self._groups = Groups(features, most_bytes=most_bytes, most_records=options.row_group_records, least_bytes=_LEAST)
        self._images = hugging_face.images(features, options.hugging_face) if options.hugging_face is not None else None
        self._classes: Mapping[str, Sequence[str]] = {}
        self._pieces = Pieces()
        self._compression = (options.compression.lower(), level or default)

    def take_classes(self, classes: Mapping[str, Sequence[str]]) -> None:
        """Set the class names of each feature. With `huggingFace`, the class names are stored in the file's metadata."""
        self._classes = classes

    @staticmethod
    def extension(_output: Output) -> str:
        """Return `parquet`."""
        return "parquet"

    @staticmethod
    def holds_null(_output: Output, _feature: FeatureSpec) -> bool:
        """Return True: every column is nullable."""
        return True

    @staticmethod
    def keeps(kind: pa.DataType) -> pa.DataType | None:
        """Return the nearest type that Parquet has: milliseconds for seconds, date32 for date64, and decimals of 128 or 256 bits."""
        return plain_type(kind)

    def encode(self, batch: pa.RecordBatch) -> bytes:
        """Return the row groups that are now complete."""
        for group in self._groups.add(batch):
            self._write(group)
        return self._pieces.take()

    def close(self) -> bytes:
        """Return the last row group and the footer."""
        rest = self._groups.rest()
        if rest is not None:
            self._write(rest)
        self._writer.close()
        return self._pieces.take()

    @cached_property
    def _schema(self) -> pa.Schema:
        if self._images is None:
            return self._groups.schema
        schema = hugging_face.hugging_face_schema(self._groups.schema, self._images)
        return schema.with_metadata(hugging_face.metadata(schema, self._images, self._classes))

    @cached_property
    def _writer(self) -> Any:
        """The Parquet writer. It is opened with the first row group, because the class names in its schema aren't known earlier."""
        compression, level = self._compression
        return _parquet.ParquetWriter(
            self._pieces, self._schema, compression=compression, compression_level=level, write_page_checksum=True
        )

    def _write(self, group: pa.RecordBatch) -> None:
        if self._images is not None:
            group = hugging_face.wrapped(group, self._schema)
        self._writer.write_table(pa.Table.from_batches([group]), row_group_size=group.num_rows)
