"""The tunnel's encoding of rows: Arrow messages without the schema, in chunks with CRC-32C checksums.

An encoding consists of the chunk size (4 bytes, big-endian), then each full chunk and its checksum, and finally the remaining bytes and the
checksum of all chunks.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from typing import Any

import google_crc32c
import pyarrow as pa

from storeservers.odps.errors import OdpsError

CHUNK_BYTES = 65_536


def sent(batches: Iterable[pa.RecordBatch]) -> Iterator[bytes]:
    """Encodes a response body, chunk by chunk."""
    yield struct.pack("!I", CHUNK_BYTES)
    waiting = bytearray()
    whole = 0
    for batch in batches:
        waiting += batch.serialize().to_pybytes()
        while len(waiting) >= CHUNK_BYTES:
            chunk = bytes(waiting[:CHUNK_BYTES])
            del waiting[:CHUNK_BYTES]
            whole = google_crc32c.extend(whole, chunk)
            yield chunk + struct.pack("!I", google_crc32c.value(chunk))
    whole = google_crc32c.extend(whole, bytes(waiting))
    yield bytes(waiting) + struct.pack("!I", whole)


def received(body: bytes, schema: pa.Schema) -> pa.Table:
    """Decodes the rows of a request body. Rejects wrong checksums."""
    (size,) = struct.unpack("!I", body[:4])
    messages = bytearray()
    at = 4
    while at < len(body):
        piece = body[at : at + size + 4]
        chunk, (given,) = piece[:-4], struct.unpack("!I", piece[-4:])
        messages += chunk
        expected = google_crc32c.value(chunk if len(piece) == size + 4 else bytes(messages))
        if given != expected:
            raise OdpsError(400, "CorruptedDataStream", "The data stream was corrupted, please try again later")
        at += len(piece)
    ipc: Any = pa.ipc
    with ipc.open_stream(schema.serialize().to_pybytes() + bytes(messages)) as reader:
        found: pa.Table = reader.read_all()
        return found
