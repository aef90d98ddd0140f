"""Code shared by the readers of `parquet`, `arrow`, `avro` and `orc`."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, ClassVar, TypeAlias

import pyarrow as pa

from dataprep_api.spec.sources.table_files import TableFiles
from dataprep_converter.core.errors import BadData
from dataprep_converter.inputs.access import Access
from dataprep_converter.readers import Discovery, Listing
from dataprep_converter.readers.base.blocks import BlockReader
from dataprep_converter.readers.base.partitions import (
    ListFiles,
    Partitions,
    discover_with_partitions,
    names_from,
    without_partition_columns,
)
from dataprep_converter.readers.columnar.tables import CommonSchema, Table, columns_from
from dataprep_converter.sampling.units import Unit
from dataprep_converter.stores import Entry, Input

UnitsOf: TypeAlias = Callable[[int, str, Entry, Input, CommonSchema], Iterator[Unit]]
"""Yields the units of an open file, and passes the file's schema to `CommonSchema`. The first two arguments are the root and the path."""


class TableReader(BlockReader):
    """A reader of files with typed columns. The field `b` of the struct `a` is the column `a/b`."""

    of: ClassVar[str]
    """The source's name in messages."""

    def __init__(self, source: TableFiles, state: Mapping[str, Any], access: Access) -> None:
        table = Table(
            without_partition_columns(source, names_from(state), of=self.of), columns_from(state), of=self.of, keep_nulls=access.keeps_nulls
        )
        super().__init__(access, Partitions(source.uris, state, of=self.of, keep_nulls=access.keeps_nulls), lost_of=table.lost_of)
        self._table = table

    def schema(self) -> pa.Schema:
        """The selected columns."""
        return self.with_partitions(self._table.schema)


def discover_tables(source: TableFiles, access: Access, *, of: str, units_of: UnitsOf) -> Discovery:
    """The units of all files, with common columns that can hold the values of all files.

    Raises NotFound for a URI without files, and BadSpec for columns that can't be read or unified.
    """

    def units(selected: TableFiles, files: ListFiles) -> Listing[Unit]:
        common = CommonSchema(selected, of=of, structs=access.structs, rounds_defaults=access.rounds_defaults)
        for root, path, entry in files():
            with access.store(entry.uri).open(entry.uri) as opened:
                yield from units_of(root, path, entry, opened, common)
        return common.state()

    return discover_with_partitions(source, access, of=of, units=units)


@contextmanager
def errors_as_bad_data(uri: str, what: str) -> Iterator[None]:
    """Converts Arrow's errors within the block to BadData, which names the file."""
    try:
        yield
    except (OSError, pa.ArrowException) as exc:
        raise BadData(f"{uri} is {what}: {exc}", uri=uri) from exc
