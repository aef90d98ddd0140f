"""What an encoder makes is read as late as it may be: the sink writes one batch while another waits and the next is encoded."""

from collections import deque
from collections.abc import Iterable, Iterator

import pyarrow as pa

from dataprep_converter.formats.encoder import Encoder


def read_late(encoder: Encoder, parts: Iterable[pa.RecordBatch]) -> Iterator[bytes]:
    """The records of each part, read after the next two were encoded: so long the buffer is valid."""
    made: deque[bytes | bytearray | memoryview] = deque()
    for part in parts:
        made.append(encoder.encode(part))
        if len(made) > 2:
            yield bytes(made.popleft())
    yield from map(bytes, made)
