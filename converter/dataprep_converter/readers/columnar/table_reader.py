"""Code shared by the readers of `parquet`, `arrow`, `avro` and `orc`."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, ClassVar, TypeAlias

import pyarrow as pa

from dataprep_api import canonical
from dataprep_api.spec.sources.table_files import TableFiles
from dataprep_converter.core.errors import BadData
from dataprep_converter.inputs.access import Access
from dataprep_converter.readers import Discovery, Listing
from dataprep_converter.readers.base.blocks import BlockReader
from dataprep_converter.readers.base.examined import FilePart, Form, cost_of_start, examined, open_listed
from dataprep_converter.readers.base.partitions import (
    ListFiles,
    Partitions,
    discover_with_partitions,
    names_from,
    without_partition_columns,
)
from dataprep_converter.readers.columnar.table_file import Span, TableFile, from_document, to_document
from dataprep_converter.readers.columnar.tables import CommonSchema, Table, columns_from
from dataprep_converter.readers.columnar.unified import Selection
from dataprep_converter.records.batch import INT96
from dataprep_converter.sampling.units import Unit
from dataprep_converter.stores import Entry, Input, Store

Examine: TypeAlias = Callable[[Input, str, Selection], TableFile]
"""Reads the facts that the plan step needs from an open file. The second argument is the URI. Raises BadData, and may raise BadSpec for
columns that can't be read. Several threads may call it."""


class TableReader(BlockReader):
    """A reader of files with typed columns. The field `b` of the struct `a` is the column `a/b`."""

    of: ClassVar[str]
    """The source's name in messages."""
    stored_form: ClassVar[int] = 1

    def __init__(self, source: TableFiles, state: Mapping[str, Any], access: Access) -> None:
        table = Table(
            without_partition_columns(source, names_from(state), of=self.of), columns_from(state), of=self.of, keep_nulls=access.keeps_nulls
        )
        super().__init__(access, Partitions(source.uris, state, of=self.of, keep_nulls=access.keeps_nulls), lost_of=table.lost_of)
        self._table = table

    def schema(self) -> pa.Schema:
        """The selected columns."""
        return self.with_partitions(self._table.schema)


def discover_tables(
    source: TableFiles, access: Access, *, of: str, examine: Examine, bytes_of: Callable[[FilePart], int] = cost_of_start
) -> Discovery:
    """The units of all files, with common columns that can hold the values of all files. See `Form` for `bytes_of`.

    Raises NotFound for a URI without files, and BadSpec for columns that can't be read or unified.
    """

    def units(selected: TableFiles, files: ListFiles) -> Listing[Unit]:
        common = CommonSchema(selected, of=of, structs=access.structs, rounds_defaults=access.rounds_defaults)
        int96 = common.int96 if access.version_of(INT96) > 1 else access.times_in_nanoseconds

        def open_and_examine(store: Store, entry: Entry) -> TableFile:
            with open_listed(access, store, entry) as opened:
                return examine(opened, entry.uri, common.selection)

        form = Form(bytes_of, to_document, from_document, _rule(common.selection, access))
        for file in examined(access, files(), open_and_examine, form=form):
            common.settle(file.result.schema, file.entry.uri)
            int96.update(dict.fromkeys(file.result.int96))
            yield from _units_of(file.root, file.path, file.entry, file.result.spans)
        return {} if access.only_scans else common.state()

    return discover_with_partitions(source, access, of=of, units=units)


def _rule(selection: Selection, access: Access) -> str:
    """Returns a digest of everything that determines a TableFile, except the file itself.

    The digest depends on the versions of the parts `int96` and `structs`, because the plan of an existing data set can use earlier
    versions.
    """
    structs = selection.structs
    columns = [selection.columns, [*selection.asked], structs.keeps, sorted(structs.named)]
    return canonical.sha256({"int96": access.version_of(INT96), "columns": columns})[:16]


def _units_of(root: int, path: str, entry: Entry, spans: Iterable[Span]) -> Iterator[Unit]:
    row = 0
    for span in spans:
        yield Unit(
            root=root,
            path=path,
            uri=entry.uri,
            records=span.records,
            size=span.size,
            pin=entry.pin,
            offset=span.offset,
            row=row,
            extra=span.extra,
        )
        row += span.records


@contextmanager
def errors_as_bad_data(uri: str, what: str) -> Iterator[None]:
    """Converts Arrow's errors within the block to BadData, which names the file."""
    try:
        yield
    except (OSError, pa.ArrowException) as exc:
        raise BadData(f"{uri} is {what}: {exc}", uri=uri) from exc
