"""The data source for Ray Data: `ray.data.read_datasource(DataprepDatasource(…))`."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pyarrow as pa

from dataprep_api import names
from dataprep_api.dataset.report import Manifest
from dataprep_converter.core.tensors import is_tensor
from dataprep_frames import reading
from dataprep_frames.options import settings_of
from dataprep_ray.interface import BlockMetadata, Datasource, ReadTask, tensors_of_ray
from dataprep_ray.options import AnyPath, read_options
from dataprep_ray.ray_types import TYPES

_arrow: Any = pa  # the stubs lack some functions


class DataprepDatasource(Datasource):  # type: ignore[misc]  # Ray isn't installed when types are checked
    """Reads a finished data set of any format, from any store."""

    def __init__(
        self,
        uri: AnyPath,
        *,
        columns: Sequence[str] | None = None,
        split: str | Sequence[str] | None = None,
        split_column: str | None = None,
        job: str | None = None,
    ) -> None:
        """Reads only the data set's manifest, and no data.

        uri           the folder of the data set
        columns       the features to read, in this order; None means all
        split         the split or the splits to read; None means all
        split_column  the name of an additional column with the name of each row's split; None means no such column
        job           a job's YAML file whose spec.stores describes the stores; without it, the environment describes them

        Raises NotFound if there is no finished data set, and BadData if its manifest is damaged. Raises BadSpec for an invalid argument,
        and for a column or a split that the data set doesn't have.
        """
        super().__init__()
        self._options = read_options(uri, columns=columns, split=split, split_column=split_column, job=job)
        self._settings = settings_of(job)
        self._opened: tuple[reading.Source, Manifest] | None = self._open()

    def get_name(self) -> str:
        """Returns the name of the read tasks."""
        return "Dataprep"

    def estimate_inmemory_data_size(self) -> int | None:
        """Returns the size of the files, which is about the size of the records unless the files are compressed."""
        source, manifest = self._source()
        return sum(file.size for part in source.partitions(manifest) for file in part.files)

    def get_read_tasks(
        self,
        parallelism: int,
        per_task_row_limit: int | None = None,
        data_context: Any = None,  # Any: Ray's context
    ) -> list[ReadTask]:
        """Returns a task for each group of consecutive shards of a split. There are about `parallelism` tasks, but fewer if there are fewer
        shards, and more if the groups would be larger than 128 MiB."""
        del data_context
        source, manifest = self._source()
        # If there are no records, a single task tells Ray which columns there are.
        partitions = source.partitions(manifest, max(1, parallelism)) or [reading.Partition("", (), ())]
        schema = _block(_empty(source.schema)).schema
        return [
            ReadTask(_read_function(source, part), _metadata(source, part), schema=schema, per_task_row_limit=per_task_row_limit)
            for part in partitions
        ]

    def _open(self) -> tuple[reading.Source, Manifest]:
        return reading.open_source(self._options, TYPES, self._settings)

    def _source(self) -> tuple[reading.Source, Manifest]:
        if self._opened is None:
            self._opened = self._open()
        return self._opened

    def __getstate__(self) -> dict[str, Any]:
        """Leaves out the manifest, which can be large. A process that needs the manifest reads it again."""
        return self.__dict__ | {"_opened": None}


def _read_function(source: reading.Source, partition: reading.Partition) -> Callable[[], Iterator[pa.Table]]:
    """Returns a function that yields the blocks of a partition. The function has a name, which Ray requires."""

    def read() -> Iterator[pa.Table]:
        is_empty = True
        for batch in source.batches(partition):
            is_empty = False
            yield _block(batch)
        if is_empty:
            yield _block(_empty(source.schema))

    return read


def _block(batch: pa.RecordBatch) -> pa.Table:
    """Returns a batch as a block, in which tensors have Ray's own type."""
    columns = [tensors_of_ray(column) if is_tensor(column.type) else column for column in batch.columns]
    table: pa.Table = _arrow.Table.from_arrays(columns, names=batch.schema.names)
    return table


def _empty(schema: pa.Schema) -> pa.RecordBatch:
    batch: pa.RecordBatch = _arrow.RecordBatch.from_arrays([_arrow.nulls(0, field.type) for field in schema], schema=schema)
    return batch


def _metadata(source: reading.Source, partition: reading.Partition) -> BlockMetadata:
    return BlockMetadata(
        num_rows=sum(file.records for file in partition.files),
        size_bytes=sum(file.size for file in partition.files),
        input_files=[names.join(source.options.uri, file.file) for file in partition.files],
        exec_stats=None,
    )
