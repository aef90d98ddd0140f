"""The data sink for Ray Data: `ds.write_datasink(DataprepDatasink(…))`."""

import logging
import secrets
from collections.abc import Iterable, Sequence
from typing import Any

import pyarrow as pa

from dataprep_converter.core.errors import BadSpec
from dataprep_frames import attempts, publishing
from dataprep_frames.options import settings_of
from dataprep_frames.writing import Write
from dataprep_ray.blocks import batches_of, native_schema
from dataprep_ray.interface import BlockAccessor, Datasink, errors_allowed
from dataprep_ray.options import AnyPath, min_rows, write_options

logger = logging.getLogger(__name__)


class DataprepDatasink(Datasink):  # type: ignore[misc]  # Ray isn't installed when types are checked
    """Writes a Dataset as a data set. `write` runs in the tasks, and the other methods run on the driver."""

    def __init__(
        self,
        uri: AnyPath,
        *,
        format: str = "tfrecord",  # noqa: A002 - the field's name
        mode: Any = "errorifexists",  # Any: a string, or Ray's SaveMode
        split: str | None = None,
        split_column: str | None = None,
        nested: Sequence[str] | None = None,
        schema: Any = None,  # Any: Arrow's schema, or Ray's
        min_rows_per_file: int | None = None,
        job: str | None = None,
        **output: Any,
    ) -> None:
        """Checks the arguments and the output. Changes nothing.

        uri                the folder of the data set
        format             the format of the shards
        mode               what happens to an existing data set: "errorifexists", "overwrite", "append" or "ignore"
        split              the split of all rows; by default `train`
        split_column       instead of `split`, the column with the name of each row's split; the column isn't written
        nested             structs, and lists that contain nulls, to keep as nested values
        schema             the columns of the Dataset, such as ds.schema(); without it, the blocks of all tasks must have the same columns
        min_rows_per_file  the minimum number of rows for each write task; each task writes one file
        job                a job's YAML file whose spec.stores describes the stores; without it, the environment describes them
        output             other fields of spec.output, such as tfrecord={"compression": "Gzip"}

        Raises BadSpec for an unknown or invalid argument and for columns that can't be written, and OutputExists if the folder has files
        that must not be replaced.
        """
        self._options = write_options(
            uri,
            format=format,
            mode=mode,
            split=split,
            split_column=split_column,
            nested=nested,
            job=job,
            output=output,
        )
        self._settings = settings_of(job)
        self._schema = _arrow_schema(schema)
        self._min_rows = min_rows(min_rows_per_file)
        self._write: Write | None = None
        # If on_write_start raised the error, Ray would report it as an error in Ray itself. So check the output here first.
        self._begin()

    def get_name(self) -> str:
        """Returns the name of the write tasks."""
        return "Dataprep"

    @property
    def min_rows_per_write(self) -> int | None:
        """The number of rows that Ray should pass to each write task."""
        return self._min_rows

    def on_write_start(self, schema: Any = None) -> None:
        """Checks the output, then decides how the Dataset is written.

        `schema` is not used: if Ray has fused the write with earlier operators, `schema` has the columns of these operators' input.
        """
        del schema
        self._begun()

    def write(self, blocks: Iterable[Any], ctx: Any) -> attempts.WrittenPartition:
        """Writes the rows of a task into hidden files. Ray may call this several times for one task, even at the same time."""
        if self._write is None:
            raise RuntimeError("write must run in a task of Ray, after on_write_start")
        tables = (BlockAccessor.for_block(block).to_arrow() for block in blocks)
        return attempts.write_partition(self._write, batches_of(tables, self._schema), partition=ctx.task_idx, attempt=secrets.token_hex(8))

    def on_write_complete(self, write_result: Any) -> None:
        """Publishes the files of the attempts that Ray has chosen."""
        # For a Dataset without blocks, Ray doesn't call on_write_start, so the write begins only here.
        result = publishing.commit(self._begun(), write_result.write_returns, rows=int(write_result.num_rows))
        self._write = None
        for warning in result.warnings if result is not None else ():
            logger.warning("%s", warning)

    def on_write_failed(self, error: Exception) -> None:
        """Removes the files of all attempts."""
        del error
        if self._write is not None:
            publishing.abort(self._write)
            self._write = None

    def _begun(self) -> Write:
        if self._write is None:
            if allowed := errors_allowed():
                raise BadSpec(
                    f"DataContext.max_errored_blocks is {allowed}, so Ray would leave out the rows of tasks that fail. Set it to 0 for this write."
                )
            self._write = self._begin()
        return self._write

    def _begin(self) -> Write:
        return publishing.begin_write(self._options, self._schema, self._settings)


def _arrow_schema(schema: Any) -> pa.Schema | None:
    """Returns the columns in Arrow's own types. Raises BadSpec if `schema` is neither Arrow's nor Ray's."""
    if schema is None:
        return None
    own = getattr(schema, "base_schema", schema)
    if not isinstance(own, pa.Schema):
        raise BadSpec(
            f"The option schema must be a pyarrow.Schema, or the schema of a Dataset with Arrow blocks; got {type(own).__name__}. Without "
            "schema, the blocks of all tasks must have the same columns."
        )
    return native_schema(own)
