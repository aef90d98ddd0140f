"""Decoders turn the bytes of a shard back into records, for `verify` and `inspect`. Each format has one file."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias, runtime_checkable

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dataprep_api.dataset.report import Manifest


class Decoder(Protocol):
    """Reads the files that the encoder of the same format writes. Decoders check all lengths, counts and checksums that a file contains."""

    def __init__(self, manifest: Manifest) -> None:
        """Take the compression, the features and the format's options (`content["output"]`) from `manifest`."""
        ...

    def read(self, pieces: Iterable[bytes]) -> Iterator[tuple[int, Any]]:
        """Yield an (offset, record) pair for every record of a file, whose bytes come in `pieces`. All pieces are consumed.

        The type of a record depends on the format. Raises BrokenRecord at the first fault, after yielding all good records before it.
        """
        ...

    def parse(self, record: Any) -> dict[str, Any]:
        """For each feature of a record, return a flat list of ints, floats or bytes. For a sequence, return one such list per step."""
        ...


Places: TypeAlias = "npt.NDArray[np.int64]"


@dataclass(frozen=True)
class VerifiedRecords:
    """A run of consecutive, complete records that have passed all checks."""

    data: bytes
    offset: int
    """The offset of `data` in the uncompressed file."""
    starts: Places
    """The position in `data` where each record's content begins, after its framing header."""
    ends: Places
    head: int
    """The number of framing bytes before each record's content."""

    def __len__(self) -> int:
        return len(self.starts)

    def offset_of(self, number: int) -> int:
        """Return the file offset at which this record's framing begins."""
        return self.offset + int(self.starts[number]) - self.head

    def record(self, number: int) -> bytes:
        """Return the content of the record with this number."""
        return self.data[int(self.starts[number]) : int(self.ends[number])]


@runtime_checkable
class ReadsBlocks(Protocol):
    """A decoder that can read many records in one call, which is faster than reading them one by one."""

    def blocks(self, pieces: Iterable[bytes]) -> Iterator[VerifiedRecords]:
        """Yield the same records as `read`, several at a time."""
        ...


@runtime_checkable
class MakesColumns(Protocol):
    """A decoder that converts many records to columns in one call, which is faster than converting them one by one."""

    def columns(self, records: Sequence[Any], schema: pa.Schema) -> pa.RecordBatch | None:
        """Convert records from `read` to the columns of `schema`, a schema made by `values.schema`.

        Return None if a value is wrong. The caller then checks the records one by one.
        """
        ...


@runtime_checkable
class ReadsArrays(Protocol):
    """A decoder of a format whose files consist of arrays."""

    def arrays(self, pieces: Iterable[bytes]) -> dict[str, npt.NDArray[Any]]:
        """Return a file's arrays, keyed by feature. The first dimension of each array has one entry per record.

        Raises BrokenRecord.
        """
        ...


@runtime_checkable
class NamesFeatures(Protocol):
    """A decoder of a format that stores features under keys that may differ from the features' names."""

    def by_feature(self, record: Any) -> dict[str, Any]:
        """Return the same values as `parse`, but keyed by the manifest's feature names."""
        ...
