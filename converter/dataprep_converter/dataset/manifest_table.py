"""`manifest-files.parquet`, the table beside a manifest with very many shards.

A manifest with more than MOST_LISTED_FILES shards contains no list of files. Instead, it names a Parquet file, which has a row for each
shard (`shard_table.SCHEMA`). In memory, such a manifest has sequences that make their elements from these rows. So code that uses a
manifest doesn't depend on how the manifest is stored.
"""

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, cast

import pyarrow as pa
import pyarrow.parquet as pq

from dataprep_api import names
from dataprep_api.dataset.report import Manifest, ManifestFile, ManifestTable, MetadataFile
from dataprep_converter.core.errors import NotWhole
from dataprep_converter.dataset import shard_table
from dataprep_converter.dataset.shard_table import Batches, Rows
from dataprep_converter.dataset.table_rows import check_rows
from dataprep_converter.runtime.temporary import IN_MEMORY, TemporaryFile, room_for

_parquet: Any = pq  # the type stubs lack Python's file objects and the methods of a ParquetFile

MOST_LISTED_FILES: int = 65_536
"""The largest number of shards that `manifest.json` lists itself."""
_ROW_GROUP: Final = 65_536


def is_large(files: Sequence[ManifestFile]) -> bool:
    """Whether a manifest of these files needs a table."""
    return len(files) > MOST_LISTED_FILES


def with_shards(manifest: Manifest, batches: Batches) -> Manifest:
    """Returns the manifest with these shards, their record indexes, and their files of bad records."""
    files, quarantine = shard_table.files(batches), shard_table.quarantine(batches)
    if is_large(files):
        return manifest.model_copy(update={"files": files, "quarantine": quarantine, "metadata": shard_table.indexes(batches)})
    return manifest.model_copy(
        update={"files": list(files), "quarantine": list(quarantine), "metadata": list(shard_table.indexes(batches))}
    )


def with_metadata(manifest: Manifest, files: Sequence[MetadataFile]) -> Manifest:
    """Returns the manifest with these metadata files added after its record indexes."""
    indexes = manifest.metadata
    metadata = indexes.followed_by(list(files)) if isinstance(indexes, Rows) else [*indexes, *files]
    return manifest.model_copy(update={"metadata": metadata})


def table_of(manifest: Manifest) -> TemporaryFile:
    """Returns a file with the table of the manifest's shards. Raises StoreFull."""
    file = TemporaryFile(names.manifest_table(manifest.run_id), in_memory=IN_MEMORY)
    try:
        with (
            room_for(file.what),
            _parquet.ParquetWriter(
                file.file, shard_table.SCHEMA, compression="zstd", use_dictionary=["split"], write_statistics=False
            ) as writer,
        ):
            for group in _row_groups(shard_table.batches_of(manifest.files)):
                writer.write_table(group, row_group_size=_ROW_GROUP)
    except BaseException:
        file.close()
        raise
    return file


def _row_groups(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Combines the batches into tables of _ROW_GROUP rows. Only the last table may have fewer rows."""
    rows = shard_table.SCHEMA.empty_table()
    for batch in batches:
        rows = pa.concat_tables([rows, pa.Table.from_batches([batch])])
        while rows.num_rows >= _ROW_GROUP:
            yield rows.slice(0, _ROW_GROUP)
            rows = rows.slice(_ROW_GROUP)
    if rows.num_rows:
        yield rows


def with_table(manifest: Manifest, file: TemporaryFile) -> Manifest:
    """Returns the manifest with a reference to the table in this file."""
    table = ManifestTable(file=names.manifest_table(manifest.run_id), rows=len(manifest.files), sha256=sha256_of(file))
    return manifest.model_copy(update={"file_table": table})


def listed_metadata(manifest: Manifest) -> Sequence[MetadataFile]:
    """Returns the metadata files that aren't in the table. If there is no table, returns all metadata files."""
    return manifest.metadata.listed if isinstance(manifest.metadata, Rows) else manifest.metadata


def with_rows(head: Manifest, file: TemporaryFile, uri: str) -> Manifest:
    """Returns the manifest that consists of this head and the table in the file. `uri` is the table's URI.

    Raises NotWhole if the file isn't the table that the head names, or if dataprep can't have written the table.
    """
    table = head.file_table
    if table is None:
        return head
    sha256 = sha256_of(file)
    if sha256 != table.sha256:
        raise NotWhole(f"{uri} was changed: its SHA-256 is {sha256}, but the manifest states {table.sha256}.", uri=uri)
    batches = _read(file, table.rows, head.run_id, uri)
    return head.model_copy(
        update={
            "files": shard_table.files(batches),
            "quarantine": shard_table.quarantine(batches),
            "metadata": shard_table.indexes(batches, head.metadata),
        }
    )


def sha256_of(file: TemporaryFile) -> str:
    """Returns the digest of the file's bytes."""
    digest = hashlib.sha256()
    for piece in file.pieces():
        digest.update(piece)
    return digest.hexdigest()


def _read(file: TemporaryFile, rows: int, run_id: str, uri: str) -> Batches:
    """Returns the rows of this run's table, a row group at a time. Raises NotWhole if the table doesn't have `rows` rows."""
    try:
        # Arrow's threads are not used, because a worker crashes if it exits while one of these threads is still freeing the bytes.
        stored = _parquet.ParquetFile(file.file, pre_buffer=False)
        if not stored.schema_arrow.equals(shard_table.SCHEMA):
            expected = ", ".join(shard_table.SCHEMA.names)
            raise NotWhole(f"{uri} was not written by dataprep: expected a table with the columns {expected}.", uri=uri)
        if stored.metadata.num_rows != rows:
            raise NotWhole(
                f"{uri} was not written by dataprep: it has {stored.metadata.num_rows} rows, but the manifest states {rows}.", uri=uri
            )
        groups = (cast("pa.Table", stored.read_row_group(number, use_threads=False)) for number in range(stored.num_row_groups))
        batches = [batch for group in groups for batch in group.combine_chunks().to_batches()]
        check_rows(batches, run_id, uri)
    except (pa.ArrowException, OSError) as exc:
        raise NotWhole(f"{uri} was not written by dataprep: {' '.join(str(exc).split())}.", uri=uri) from exc
    return batches
