"""Reads an encoder's buffers at the latest allowed moment.

In a job, one batch is being written and a second batch is waiting while a third batch is encoded.
"""

from collections import deque
from collections.abc import Iterable, Iterator

import pyarrow as pa

from dataprep_converter.formats.encoder import Encoder


def read_late(encoder: Encoder, parts: Iterable[pa.RecordBatch]) -> Iterator[bytes]:
    """Return the records of each part. Records are read only after the next two parts are encoded, because buffers have to stay valid until
    then."""
    made: deque[bytes | bytearray | memoryview] = deque()
    for part in parts:
        made.append(encoder.encode(part))
        if len(made) > 2:
            yield bytes(made.popleft())
    yield from map(bytes, made)
