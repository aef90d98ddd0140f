"""Decoder for `arrayRecord`. Uses the library that defines the format, which checks the hash of every chunk."""

import re
from collections.abc import Iterable, Iterator
from typing import Any, Final

from dataprep_api.dataset.report import Manifest
from dataprep_converter.core.errors import BrokenRecord
from dataprep_converter.formats.tfrecord import array_records, records
from dataprep_converter.runtime.temporary import TemporaryFile

_PLACE: Final = re.compile(r"(?:, chunk at (\d+)[^;,]*|; at byte (\d+))")
_SEQUENTIAL: Final = "readahead_buffer_size:4M,max_parallelism:1"


class ArrayRecordDecoder:
    """Decodes each record to its serialised message.

    A file's chunk table is at the end of the file, so the file is first copied to $TMPDIR.
    """

    def __init__(self, manifest: Manifest) -> None:
        del manifest  # reading messages needs nothing from the manifest
        self._library = array_records.library()

    def read(self, pieces: Iterable[bytes]) -> Iterator[tuple[int, bytes]]:
        """Yield the records.

        A record's offset is the total size of the preceding records. A fault's offset is the offset of its chunk in the file.
        """
        with TemporaryFile.of("a shard that is read back", pieces) as file:
            offset = 0
            try:
                reader = self._library.ArrayRecordReader(array_records.path_of(file), _SEQUENTIAL)
                for _ in range(reader.num_records()):
                    record = reader.read()
                    yield offset, record
                    offset += len(record)
                reader.close()
            except (RuntimeError, IndexError) as exc:
                raise _broken(str(exc)) from exc

    def parse(self, record: bytes) -> dict[str, Any]:
        """Return the features of the message."""
        return records.parse_example(record)


def _broken(message: str) -> BrokenRecord:
    """Convert the library's message to a BrokenRecord.

    If the message contains the offset of a chunk or byte, the offset is removed from the message and stored in the error.
    """
    places = [int(first or second) for first, second in _PLACE.findall(message)]
    reason = _PLACE.sub("", message)
    return BrokenRecord(f"damaged ArrayRecord: {reason}" if reason else "not an ArrayRecord file", offset=places[0] if places else 0)
