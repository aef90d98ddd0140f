"""The files of a shuffle. Each file contains the records of one slice of the input, in one range for each convert task.

    header ─ index: one entry for each task ─ range of task 0 ─ range of task 1 ─ …

The header identifies the plan and the slice. An entry consists of the range's position, its number of samples, and a digest. A range
consists of Arrow's messages for record batches: first the records, and then the samples that could not be read. A range contains no schema,
because the schema is known from the plan.
"""

import hashlib
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from dataprep_converter.core.errors import NotWhole
from dataprep_converter.runtime.temporary import IN_MEMORY, TemporaryFile
from dataprep_converter.stores import Input

_MAGIC: Final = b"dpshuf01"
_HEADER: Final = struct.Struct("<8s32s32sQQ")
_ENTRY: Final = struct.Struct("<QQQQ32s")

_BAD: Final[dict[str, pa.DataType]] = {"sample": pa.int64(), "reason": pa.binary(), "raw": pa.binary(), "size": pa.int64()}
BAD: Final[pa.Schema] = pa.schema(_BAD)
"""The samples that could not be read.

`reason` is UTF-8 and can contain lone surrogates. `raw` is null if the reader doesn't have the sample's bytes. `size` is the full size of
the sample's bytes.
"""


@dataclass(frozen=True)
class Identity:
    """Identifies the plan, the schema and the slice that a file is made from. Files with the same identity contain the same records."""

    plan_sha256: str
    schema_sha256: str
    """The digest of the schema of the records."""
    number: int
    """The number of the slice of the input."""
    tasks: int
    """The number of ranges in the file."""

    @classmethod
    def of(cls, plan_sha256: str, schema: pa.Schema, *, number: int, tasks: int) -> "Identity":
        """Returns the identity of a file whose records have this schema."""
        return cls(plan_sha256, hashlib.sha256(schema.serialize()).hexdigest(), number, tasks)

    def header(self) -> bytes:
        """Returns the first bytes of the file."""
        return _HEADER.pack(_MAGIC, bytes.fromhex(self.plan_sha256), bytes.fromhex(self.schema_sha256), self.number, self.tasks)


@dataclass(frozen=True)
class Range:
    """The range of one task, whose position in a file isn't known yet."""

    samples: int
    """The number of samples, including those that could not be read."""
    records_bytes: int
    bad_bytes: int
    sha256: bytes
    """The digest of the range (`digest_of`)."""

    @property
    def size(self) -> int:
        """The number of bytes in the file."""
        return self.records_bytes + self.bad_bytes


def digest_of(records_sha256: bytes, bad_sha256: bytes) -> bytes:
    """Returns the digest of a range, computed from the digests of its two parts."""
    return hashlib.sha256(records_sha256 + bad_sha256).digest()


def head(identity: Identity, ranges: Sequence[Range]) -> bytes:
    """Returns the header and the index of a file. In the file, the ranges follow in the given order."""
    offset = _HEADER.size + len(ranges) * _ENTRY.size
    pieces = [identity.header()]
    for task, each in enumerate(ranges):
        place = (offset, each.samples, each.records_bytes, each.bad_bytes)
        pieces.append(_ENTRY.pack(*place, _digest(identity, task, place, each.sha256)))
        offset += each.size
    return b"".join(pieces)


def is_whole(source: Input, identity: Identity) -> bool:
    """Whether a file has this identity and its full size. The digests aren't checked, because a store shows only complete files."""
    if source.read_at(0, _HEADER.size) != identity.header():
        return False
    last = _entry(source, identity.tasks - 1)
    return last is not None and source.size == last[0] + last[2] + last[3]


def count_samples(source: Input, identity: Identity) -> int:
    """Returns the number of samples in a whole file, including those that could not be read."""
    index = source.read_at(_HEADER.size, identity.tasks * _ENTRY.size)
    return sum(samples for _, samples, *_ in _ENTRY.iter_unpack(index))


@dataclass(frozen=True)
class StoredRange:
    """The range of one task, read from a file and checked."""

    samples: int
    """The number of samples, including those that could not be read."""
    records: memoryview
    bad: memoryview

    @property
    def bytes_in(self) -> int:
        """The number of bytes read from the file."""
        return _ENTRY.size + len(self.records) + len(self.bad)


def read_range(source: Input, identity: Identity, task: int, *, uri: str) -> StoredRange:
    """Reads one task's range. A large range is copied to a temporary file. Raises NotWhole if the file has another identity or is damaged,
    and StoreFull if there is no space for the temporary file."""
    entry = _entry(source, task)
    if entry is None or entry[0] + entry[2] + entry[3] > source.size:
        raise _damaged(uri)
    offset, samples, records_bytes, bad_bytes, digest = entry
    data = _read(source, offset, records_bytes + bad_bytes)
    records, bad = data[:records_bytes], data[records_bytes:]
    sha256 = digest_of(hashlib.sha256(records).digest(), hashlib.sha256(bad).digest())
    if _digest(identity, task, (offset, samples, records_bytes, bad_bytes), sha256) != digest:
        raise _damaged(uri)
    return StoredRange(samples, records, bad)


def batches(part: memoryview, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Yields the batches in one part of a range."""
    stream = pa.BufferReader(pa.py_buffer(part))
    while stream.tell() < len(part):
        yield pa.ipc.read_record_batch(pa.ipc.read_message(stream), schema)


def _read(source: Input, offset: int, length: int) -> memoryview:
    if length <= IN_MEMORY:
        return memoryview(source.read_at(offset, length) if length else b"")
    with TemporaryFile.of("the records of a shuffle", source.stream(offset, length)) as file:
        return memoryview(file.map())


def _entry(source: Input, task: int) -> tuple[int, int, int, int, bytes] | None:
    data = source.read_at(_HEADER.size + task * _ENTRY.size, _ENTRY.size)
    if len(data) < _ENTRY.size:
        return None
    entry: tuple[int, int, int, int, bytes] = _ENTRY.unpack(data)
    return entry


def _digest(identity: Identity, task: int, place: tuple[int, int, int, int], sha256: bytes) -> bytes:
    """Returns the digest of an entry. The digest also covers the identity, so that a range of another plan is refused."""
    return hashlib.sha256(identity.header() + struct.pack("<QQQQQ", task, *place) + sha256).digest()


def _damaged(uri: str) -> NotWhole:
    return NotWhole(f"{uri} doesn't contain the expected records of this plan's shuffle: its index or a digest differs.", uri=uri)
