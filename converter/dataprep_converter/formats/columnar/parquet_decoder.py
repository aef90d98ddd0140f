"""Decoder for `parquet`. The page checksums are verified."""

from collections.abc import Iterable, Iterator
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from dataprep_api.dataset.report import Manifest
from dataprep_api.spec.formats.parquet import ParquetOptions
from dataprep_converter.formats.columnar import hugging_face, tables_decoder
from dataprep_converter.formats.columnar.tables_encoder import schema_of

_MAGIC: Final = 4
"""The number of bytes before the first row group. The row groups follow without gaps."""
_DECODED: Final = 8 << 20
"""About this many bytes of a row group are decoded in one step."""
_parquet: Any = pq  # the type stubs don't cover all options


class ParquetDecoder:
    """Decodes each record to a row of a record batch. A row's offset is its row group's offset."""

    def __init__(self, manifest: Manifest) -> None:
        self._features = {feature.name: feature for feature in tables_decoder.features_of(manifest)}
        self._schema = schema_of(list(self._features.values()))
        hugging_face_options = ParquetOptions.model_validate(manifest.content.get("output", {}).get("parquet", {})).hugging_face
        self._images = (
            hugging_face.images(list(self._features.values()), hugging_face_options) if hugging_face_options is not None else None
        )

    def read(self, pieces: Iterable[bytes]) -> Iterator[tuple[int, tables_decoder.Row]]:
        """Yield the rows. The file is first copied to $TMPDIR, because its index is at its end."""
        with tables_decoder.spooled_to_file(pieces) as spool:
            with tables_decoder.faults("not a complete Parquet file", offset=0):
                file = _parquet.ParquetFile(spool, page_checksum_verification=True)
                tables_decoder.check_schema(file.schema_arrow, self._expected_schema())
            offset = _MAGIC
            for number in range(file.metadata.num_row_groups):
                group = file.metadata.row_group(number)
                size = max(1, group.num_rows * _DECODED // max(group.total_byte_size, _DECODED))
                batches = file.iter_batches(size, row_groups=[number], use_threads=False)
                rows_read = 0
                while (batch := _next(batches, offset)) is not None:
                    rows_read += batch.num_rows
                    batch = batch if self._images is None else self._as_features(batch)
                    batch = tables_decoder.as_read(batch, self._features)
                    for row in range(batch.num_rows):
                        yield offset, (batch, row)
                offset += _size(group) if rows_read else 0

    def _expected_schema(self) -> pa.Schema:
        return self._schema if self._images is None else hugging_face.hugging_face_schema(self._schema, self._images)

    def _as_features(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        columns = [hugging_face.unwrapped(batch.column(field.name), field.type) for field in self._schema]
        return pa.RecordBatch.from_arrays(columns, schema=self._schema)

    def parse(self, record: tables_decoder.Row) -> dict[str, Any]:
        """Return the values of the row."""
        return tables_decoder.values_of(record, self._features)


def _size(group: Any) -> int:
    """Return the size of a row group in bytes.

    Call this function only after the row group has been read without error: if the group's metadata is damaged, Arrow aborts the process.
    """
    return sum(group.column(number).total_compressed_size for number in range(group.num_columns))


def _next(batches: Iterator[pa.RecordBatch], offset: int) -> pa.RecordBatch | None:
    with tables_decoder.faults("a row group that can't be read", offset=offset):
        batch = next(batches, None)
        if batch is not None:
            batch.validate(full=True)
        return batch
