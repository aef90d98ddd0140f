"""The source `orc` reads the stripes of ORC files. Arrow decodes them.

The planner reads only the footers. Each stripe is a unit, and is read and decoded as a whole. Workers read only the bytes of the selected
columns.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

import pyarrow as pa
from pyarrow import orc

from dataprep_api.spec.sources.orc import OrcSource
from dataprep_converter.core.errors import BadData
from dataprep_converter.core.lru import LruCache
from dataprep_converter.inputs.access import Access
from dataprep_converter.inputs.ranged import RangedFile
from dataprep_converter.readers import Discovery
from dataprep_converter.readers.base.blocks import Block
from dataprep_converter.readers.columnar.table_file import Span, TableFile
from dataprep_converter.readers.columnar.table_reader import TableReader, discover_tables, errors_as_bad_data
from dataprep_converter.readers.columnar.unified import Selection
from dataprep_converter.sampling.units import Unit
from dataprep_converter.stores import Input

_OF: Final = "source.orc"
_FOOTER: Final = 2
_STRIPES: Final = 3
_ROWS: Final = 5
_BYTES: Final = 2  # the wire type of bytes and messages
_FAR_TIME: Final = re.compile(r"ORC timestamp \((-?\d+)s \+ \d+ns\) is out of range")
_EPOCH: Final = datetime(1970, 1, 1)  # noqa: DTZ001 - the times in a file can lack a time zone
_orc: Any = orc  # the type stubs lack the file's tail


class OrcReader(TableReader):
    """See the module. The reader's columns are the columns of the files. The field `b` of the struct `a` becomes the column `a/b`."""

    of = _OF

    @staticmethod
    def discover(source: OrcSource, access: Access) -> Discovery:
        """Reads the footers. Raises NotFound for a URI without files, BadData for a file that isn't ORC, and BadSpec for columns that can't
        be read or that differ between files."""
        return discover_tables(source, access, of=_OF, examine=_examine)

    def __init__(self, source: OrcSource, state: Mapping[str, Any], access: Access) -> None:
        super().__init__(source, state, access)
        names = list(dict.fromkeys(column.path[0] for column in self._table.columns))
        # Arrow treats a dot in a name as the separator between a struct and its field.
        self._names = None if any("." in name or "`" in name for name in names) else names
        self._orc_files: LruCache[str, Any] = self._files.views()

    def load(self, unit: Unit, source: Input) -> Block:
        """Reads and decodes a stripe."""
        file = self._orc_files.get(unit.uri, lambda: _open(source, unit.uri))
        stripe = json.loads(unit.extra)["stripe"]
        with errors_as_bad_data(unit.uri, f"not readable in stripe {stripe}"):
            names = None if self._names is None else [name for name in self._names if name in file.schema.names]
            # Read at least one column, because otherwise Arrow doesn't return the number of rows.
            columns = file.schema.names[:1] if names == [] else names
            try:
                records = file.read_stripe(stripe, columns=columns)
            except pa.ArrowInvalid as exc:
                if (fault := _fault_of_times(file, stripe, columns or file.schema.names, exc)) is not None:
                    raise BadData(f"{unit.uri}: {fault}", uri=unit.uri) from exc
                raise
            records.validate()
        return self._table.block(records)


def _fault_of_times(file: Any, stripe: int, columns: Sequence[str], error: pa.ArrowInvalid) -> str | None:
    """Returns a message if `error` was caused by a time before 1677 or after 2262. Otherwise, returns None.

    The message names the first column with such a time.
    """
    if _FAR_TIME.search(str(error)) is None:
        return None
    for name in columns:
        try:
            file.read_stripe(stripe, columns=[name])
        except pa.ArrowInvalid as exc:
            if (time := _FAR_TIME.search(str(exc))) is not None:
                return (
                    f"the column {name!r} has the time {_shown_time(int(time[1]))} in stripe {stripe}, and ORC times are read in "
                    f"nanoseconds, from 1677-09-21 to 2262-04-11. Leave the column out of {_OF}.columns, or write the files as Parquet."
                )
    return None


def _shown_time(seconds: int) -> str:
    try:
        return f"{_EPOCH + timedelta(seconds=seconds)}"
    except OverflowError:
        return f"of {seconds:,} s since 1970"


def _open(source: Input, uri: str) -> Any:
    with errors_as_bad_data(uri, "not a readable ORC file"):
        return _orc.ORCFile(RangedFile(source))


# --- planning -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Stripe:
    offset: int
    size: int
    rows: int


def _examine(source: Input, uri: str, _: Selection) -> TableFile:
    file = _open(source, uri)
    with errors_as_bad_data(uri, "not a readable ORC file"):
        schema = file.schema
        stripes = _stripes_of(file.reader.serialized_file_tail())
    if sum(stripe.rows for stripe in stripes) != file.nrows:
        raise BadData(f"{uri} is not a readable ORC file: its stripes don't have the {file.nrows:,} rows that its footer states.", uri=uri)
    spans = [
        Span(stripe.rows, stripe.size, stripe.offset, json.dumps({"stripe": number}))
        for number, stripe in enumerate(stripes)
        if stripe.rows
    ]
    return TableFile(schema.remove_metadata(), spans)


def _stripes_of(tail: bytes) -> list[_Stripe]:
    """The stripes that a file's tail lists. The tail is parsed here, because Arrow doesn't return the number of rows in a stripe.

    # message FileTail          { Footer footer = 2 }
    # message Footer            { repeated StripeInformation stripes = 3 }
    # message StripeInformation { uint64 offset = 1, indexLength = 2, dataLength = 3, footerLength = 4, numberOfRows = 5 }
    """
    stripes = []
    for tail_field, footer in _fields(tail):
        for field, message in _fields(footer) if tail_field == _FOOTER and isinstance(footer, bytes) else ():
            if field == _STRIPES and isinstance(message, bytes):
                numbers = {number: value for number, value in _fields(message) if isinstance(value, int)}
                size = sum(numbers.get(number, 0) for number in (2, 3, 4))
                stripes.append(_Stripe(numbers.get(1, 0), size, numbers.get(_ROWS, 0)))
    return stripes


def _fields(message: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Yields the number and the value of each field of a protobuf message. Arrow has already checked the message. Values are numbers or
    bytes."""
    at = 0

    def number() -> int:
        nonlocal at
        value = shift = 0
        while True:
            byte = message[at]
            at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    while at < len(message):
        key = number()
        kind = key & 7
        if kind == 0:
            yield key >> 3, number()
            continue
        size = number() if kind == _BYTES else 8 if kind == 1 else 4
        yield key >> 3, message[at : at + size]
        at += size
