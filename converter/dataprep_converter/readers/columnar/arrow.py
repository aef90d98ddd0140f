"""The source `arrow` reads the record batches of Arrow IPC files (Feather v2) and streams.

The planner reads only the message headers (`arrow_messages.py`). Each record batch is a unit, and is read and decoded as a whole.
"""

import itertools
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import pyarrow as pa

from dataprep_api.spec.sources.arrow import ArrowSource
from dataprep_converter.core.errors import BadData, InputChanged
from dataprep_converter.core.lru import LruCache
from dataprep_converter.formats.columnar.arrow_messages import DICTIONARY, RECORDS, SCHEMA, Message, messages
from dataprep_converter.inputs.access import Access
from dataprep_converter.readers import Discovery
from dataprep_converter.readers.base.blocks import KEPT_BYTES, Block
from dataprep_converter.readers.base.examined import FILE_BYTES, FilePart
from dataprep_converter.readers.base.open_files import KEPT_FILES
from dataprep_converter.readers.columnar.table_file import Span, TableFile
from dataprep_converter.readers.columnar.table_reader import TableReader, discover_tables
from dataprep_converter.readers.columnar.unified import Selection
from dataprep_converter.sampling.units import Unit
from dataprep_converter.stores import Input

CLASSES: Final = "classes"
"""The key of the class names in the reader's state. Only rows that an engine has written can have class names; Arrow files have none."""
_OF: Final = "source.arrow"
_USUAL_BATCH: Final = 1 << 20
_ipc: Any = pa.ipc  # the type stubs lack some options


class ArrowReader(TableReader):
    """See the module. The reader's columns are the columns of the files. The field `b` of the struct `a` is the column `a/b`."""

    of = _OF

    @staticmethod
    def discover(source: ArrowSource, access: Access) -> Discovery:
        """Reads schemas and lengths. Raises NotFound for a URI without files, BadData for a file that isn't Arrow IPC, and BadSpec for
        columns that can't be read or that differ between files."""
        return discover_tables(source, access, of=_OF, examine=_examine, bytes_of=_cost)

    def __init__(self, source: ArrowSource, state: Mapping[str, Any], access: Access) -> None:
        super().__init__(source, state, access)
        self._classes = class_names(state)
        self._before: LruCache[tuple[str, str], bytes] = LruCache(KEPT_FILES, KEPT_BYTES, len)

    def classes(self) -> dict[str, list[str]]:
        """The class names of columns of numbers. Empty for files: only rows that an engine has written can have class names."""
        return dict(self._classes)

    def load(self, unit: Unit, source: Input) -> Block:
        """Reads a record batch. Decodes the batch as a stream that begins with the file's schema and the dictionaries before the batch."""
        before = self._before.get((unit.uri, unit.extra), lambda: _pieces(source, json.loads(unit.extra)["before"], unit.uri))
        stream = before + _pieces(source, [(unit.offset, unit.size)], unit.uri)
        try:
            records = _ipc.open_stream(stream, options=_ipc.IpcReadOptions(use_threads=False)).read_next_batch()
            # Arrow doesn't check a batch's metadata against the buffers, so check it here. `Table` later finds text that is not UTF-8.
            records.validate()
            for name in dict.fromkeys(column.path[0] for column in self._table.columns):
                if name in records.schema.names:
                    _check(records.column(name))
        except (OSError, pa.ArrowException, StopIteration) as exc:
            raise BadData(f"{unit.uri}: the record batch at byte {unit.offset:,} can't be read: {exc}", uri=unit.uri) from exc
        # The columns are views of the stream's memory, so the block keeps all of this memory, including the memory of unselected columns.
        return replace(self._table.block(records), extra_bytes=len(stream))


def class_names(state: Mapping[str, Any]) -> dict[str, list[str]]:
    """The class names in a reader's state. Empty for files: only rows that an engine has written can have class names."""
    return dict(state.get(CLASSES, {}))


def _pieces(source: Input, pieces: Sequence[tuple[int, int]], uri: str) -> bytes:
    data = b"".join(source.read_at(offset, size) for offset, size in pieces)
    if len(data) != sum(size for _, size in pieces):
        raise InputChanged(f"{uri} shrank while it was being read.", uri=uri)
    return data


def _check(column: Any) -> None:
    """Raises ArrowInvalid for offsets and indices that are out of bounds. Treats text as bytes and times as integers, because faulty text
    and times are found later and make only their own records bad."""
    if isinstance(column, pa.ExtensionArray):
        column = column.storage
    column.view(_unchecked(column.type)).validate(full=True)


def _unchecked(kind: Any) -> Any:
    """The given Arrow type, with replacements for the types whose values Arrow would check.

    Text becomes bytes, and dates and times of day become integers.
    """
    types: Any = pa.types
    make: Any = pa
    for is_checked, raw in (
        (types.is_date64, pa.int64()),
        (types.is_time32, pa.int32()),
        (types.is_time64, pa.int64()),
        (types.is_string, pa.binary()),
        (types.is_large_string, pa.large_binary()),
        (types.is_string_view, pa.binary_view()),
    ):
        if is_checked(kind):
            return raw
    if types.is_struct(kind):
        return make.struct([field.with_type(_unchecked(field.type)) for field in kind])
    if types.is_dictionary(kind):
        return make.dictionary(kind.index_type, _unchecked(kind.value_type), kind.ordered)
    if types.is_map(kind):
        return make.map_(_unchecked(kind.key_type), _unchecked(kind.item_type))
    if types.is_fixed_size_list(kind):
        return make.list_(kind.value_field.with_type(_unchecked(kind.value_type)), kind.list_size)
    if types.is_list(kind) or types.is_large_list(kind):
        lists = make.list_ if types.is_list(kind) else make.large_list
        return lists(kind.value_field.with_type(_unchecked(kind.value_type)))
    return kind


# --- planning -----------------------------------------------------------------------------------------------------


def _examine(source: Input, uri: str, _: Selection) -> TableFile:
    read = messages(source, uri)
    schema = next(read, None)
    if schema is None or schema.kind != SCHEMA:
        raise BadData(f"{uri} is not Arrow IPC data: it doesn't begin with a schema.", uri=uri)
    columns, batches = _schema(source, schema, uri), [*_batches(schema, read)]
    return TableFile(columns.remove_metadata(), batches)


def _cost(part: FilePart) -> int:
    """Counts one request for the header of each record batch. Assumes 1 MiB per batch, because the number of batches isn't known yet."""
    return FILE_BYTES * (1 + part.entry.size // _USUAL_BATCH)


def _batches(schema: Message, following: Iterator[Message]) -> Iterator[Span]:
    dictionaries: dict[int, list[Message]] = {}
    extra = ""  # built once for all batches between two dictionaries, because there can be thousands of batches and dictionaries
    for message in following:
        if message.kind == DICTIONARY:
            before = dictionaries.get(message.dictionary, []) if message.is_delta else []
            dictionaries[message.dictionary] = [*before, message]
            extra = ""
        elif message.kind == RECORDS and message.rows:
            needed = [schema, *itertools.chain.from_iterable(dictionaries.values())]
            extra = extra or json.dumps({"before": [[part.offset, part.size] for part in needed]})
            yield Span(message.rows, message.size, message.offset, extra)


def _schema(source: Input, message: Message, uri: str) -> pa.Schema:
    try:
        schema: pa.Schema = _ipc.read_schema(pa.py_buffer(source.read_at(message.offset, message.size)))
    except (OSError, pa.ArrowException) as exc:
        raise BadData(f"{uri} is not complete Arrow IPC data: {exc}", uri=uri) from exc
    return schema
