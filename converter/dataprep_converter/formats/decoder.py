"""Decoders: the bytes of a shard back into records, for `verify` and `inspect`. One file per format."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias, runtime_checkable

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dataprep_api.dataset.report import Manifest


class Decoder(Protocol):
    """Reads what the encoder of the same format wrote, and trusts nothing that a file says."""

    def __init__(self, manifest: Manifest) -> None:
        """`manifest` has the compression, the features and the format's options (`content["output"]`)."""
        ...

    def read(self, pieces: Iterable[bytes]) -> Iterator[tuple[int, Any]]:
        """(offset, record as the format holds it) of every record of the file that `pieces` make up: all of them are taken.

        Raises BrokenRecord at the first fault, after all good records before it.
        """
        ...

    def parse(self, record: Any) -> dict[str, Any]:
        """The values of one such record by feature: lists of ints, floats or bytes, flat; a list of such lists for a sequence."""
        ...


Places: TypeAlias = "npt.NDArray[np.int64]"


@dataclass(frozen=True)
class Checked:
    """Some whole records, one after another, without a fault."""

    data: bytes
    offset: int
    """Of `data` in the uncompressed file."""
    starts: Places
    """Where in `data` each record begins, without what frames it."""
    ends: Places
    head: int
    """Bytes of framing before each."""

    def __len__(self) -> int:
        return len(self.starts)

    def offset_of(self, number: int) -> int:
        """Where one of them begins in the file, with its framing."""
        return self.offset + int(self.starts[number]) - self.head

    def record(self, number: int) -> bytes:
        """One of them."""
        return self.data[int(self.starts[number]) : int(self.ends[number])]


@runtime_checkable
class ReadsBlocks(Protocol):
    """A decoder that reads many records in less time when they come together; what is inside them is the same."""

    def blocks(self, pieces: Iterable[bytes]) -> Iterator[Checked]:
        """All records of `read`, some at a time."""
        ...


@runtime_checkable
class MakesColumns(Protocol):
    """A decoder that makes columns of many records in less time than of one after another."""

    def columns(self, records: Sequence[Any], schema: pa.Schema) -> pa.RecordBatch | None:
        """Records of `read` as these columns of `values.schema`; None where a value is missing or wrong, which a look at each tells."""
        ...


@runtime_checkable
class ReadsArrays(Protocol):
    """A decoder of a format whose files are arrays."""

    def arrays(self, pieces: Iterable[bytes]) -> dict[str, npt.NDArray[Any]]:
        """The arrays of a file by feature, with the records along the first dimension, all as long as each other. Raises BrokenRecord."""
        ...


@runtime_checkable
class NamesFeatures(Protocol):
    """A decoder of a format that stores features under other keys than their names."""

    def by_feature(self, record: Any) -> dict[str, Any]:
        """`parse`, by the names that the manifest has."""
        ...
