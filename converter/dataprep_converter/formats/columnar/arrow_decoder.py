"""`arrow`, back into records. The format has no checksums: what a flipped bit in a value does is found by the file's digest."""

from collections.abc import Iterable, Iterator
from typing import Any, Final

import pyarrow as pa

from dataprep_api.dataset.report import Manifest
from dataprep_converter.core.errors import BrokenRecord
from dataprep_converter.formats.columnar import tables_decoder
from dataprep_converter.formats.columnar.tables_encoder import schema_of

_MAGIC: Final = 8
"""Bytes before the stream of messages, which a file is with a footer behind it."""
_ipc: Any = pa.ipc  # the stubs don't know all options


class ArrowDecoder:
    """A record is a row of a batch. Offsets are those of the record batches."""

    def __init__(self, manifest: Manifest) -> None:
        self._features = {feature.name: feature for feature in tables_decoder.features_of(manifest)}

    def read(self, pieces: Iterable[bytes]) -> Iterator[tuple[int, tables_decoder.Row]]:
        """The file is copied to $TMPDIR first, because its index is at its end."""
        options = _ipc.IpcReadOptions(use_threads=False)
        with tables_decoder.spooled(pieces) as spool:
            with tables_decoder.faults("no whole Arrow IPC file", offset=0):
                count = _ipc.open_file(spool, options=options).num_record_batches
                spool.seek(_MAGIC)
                stream = _ipc.open_stream(spool, options=options)
                tables_decoder.check_schema(stream.schema, schema_of(list(self._features.values())))
            for number in range(count):
                offset = spool.tell()
                with tables_decoder.faults("a record batch that can't be read", offset=offset):
                    batch = next(stream, None)
                    if batch is None:
                        raise BrokenRecord(f"the footer names {count} record batches, and there are {number}", offset=offset)
                    batch.validate(full=True)
                for row in range(batch.num_rows):
                    yield offset, (batch, row)

    def parse(self, record: tables_decoder.Row) -> dict[str, Any]:
        """The values of the row."""
        return tables_decoder.values_of(record, self._features)
