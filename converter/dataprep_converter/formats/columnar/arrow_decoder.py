"""Decoder for `arrow`. The format has no checksums, so only the file's digest reveals a flipped bit in a value."""

from collections.abc import Iterable, Iterator
from typing import Any, Final

import pyarrow as pa

from dataprep_api.dataset.report import Manifest
from dataprep_converter.core.errors import BrokenRecord
from dataprep_converter.formats.columnar import tables_decoder
from dataprep_converter.formats.columnar.tables_encoder import schema_of

_MAGIC: Final = 8
"""The number of bytes before the message stream. An Arrow file consists of these bytes, the message stream and a footer."""
_ipc: Any = pa.ipc  # the type stubs don't cover all options


class ArrowDecoder:
    """Decodes each record to a row of a record batch. A row's offset is its batch's offset."""

    def __init__(self, manifest: Manifest) -> None:
        self._features = {feature.name: feature for feature in tables_decoder.features_of(manifest)}

    def read(self, pieces: Iterable[bytes]) -> Iterator[tuple[int, tables_decoder.Row]]:
        """Yield the rows. The file is first copied to $TMPDIR, because its index is at its end."""
        options = _ipc.IpcReadOptions(use_threads=False)
        with tables_decoder.spooled_to_file(pieces) as spool:
            with tables_decoder.faults("not a complete Arrow IPC file", offset=0):
                count = _ipc.open_file(spool, options=options).num_record_batches
                spool.seek(_MAGIC)
                stream = _ipc.open_stream(spool, options=options)
                tables_decoder.check_schema(stream.schema, schema_of(list(self._features.values())))
            for number in range(count):
                offset = spool.tell()
                with tables_decoder.faults("a record batch that can't be read", offset=offset):
                    batch = next(stream, None)
                    if batch is None:
                        raise BrokenRecord(f"the footer lists {count} record batches, but the file has {number}", offset=offset)
                    batch.validate(full=True)
                    batch = tables_decoder.as_read(batch, self._features)
                for row in range(batch.num_rows):
                    yield offset, (batch, row)

    def parse(self, record: tables_decoder.Row) -> dict[str, Any]:
        """Return the values of the row."""
        return tables_decoder.values_of(record, self._features)
