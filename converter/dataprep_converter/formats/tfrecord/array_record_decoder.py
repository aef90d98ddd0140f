"""`arrayRecord`, back into messages, by the library that defines the format: it checks the hash of every chunk."""

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
    """A record is the serialised message. The file is put into $TMPDIR first, because its table is at the end."""

    def __init__(self, manifest: Manifest) -> None:
        del manifest  # the messages say all that is needed
        self._library = array_records.library()

    def read(self, pieces: Iterable[bytes]) -> Iterator[tuple[int, bytes]]:
        """Offsets are those of the records' bytes one after another; a fault's is that of the chunk in the file."""
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
        """The features of the message."""
        return records.parse_example(record)


def _broken(message: str) -> BrokenRecord:
    """The library's message without what belongs into ours: the place of the chunk, or of the byte."""
    places = [int(first or second) for first, second in _PLACE.findall(message)]
    return BrokenRecord(_PLACE.sub("", message) or "no ArrayRecord file", offset=places[0] if places else 0)
