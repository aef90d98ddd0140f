"""Encoders turn a complete Arrow batch into the bytes of one format in one call. Each format has one file."""

from collections.abc import Iterator, Mapping, Sequence
from types import TracebackType
from typing import ClassVar, Protocol, Self, runtime_checkable

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dataprep_api.dataset.plan import Shard
from dataprep_api.spec import Output
from dataprep_converter.core.buffers import Buffer
from dataprep_converter.core.compression import Compressor, Plain
from dataprep_converter.records.feature import DtypeSupport, FeatureSpec


class Encoder(Protocol):
    """Encodes the records of one shard.

    Most encoders hold at most one batch of records. The Parquet encoder holds one row group, and the Arrow encoder one record batch. If a
    format's file is a single object, as in npz, the encoder holds the whole file. The bytes don't depend on how the records are divided
    into batches. An encoder is a context manager: when the context ends, temporary files are removed, even if the encoder has failed.
    """

    def __init__(self, output: Output, features: Sequence[FeatureSpec]) -> None: ...

    @staticmethod
    def extension(output: Output) -> str:
        """Return the file extension without a leading dot, such as `tfrecords`."""
        ...

    @staticmethod
    def numbers(output: Output) -> DtypeSupport:
        """Return the types in which the format stores numbers."""
        ...

    needs_a_value: ClassVar[bool]
    """Whether a record needs a value in at least one of the features that can be null."""

    @staticmethod
    def holds_null(output: Output, feature: FeatureSpec) -> bool:
        """Return whether the format has a null for the feature. If not, a record without a value is bad."""
        ...

    @staticmethod
    def keeps(kind: pa.DataType) -> pa.DataType | None:
        """Return the type in which the format keeps times or decimals of type `kind`, or None if the format stores them as numbers."""
        ...

    def begin(self, shard: Shard, *, seed: int) -> None:
        """Set the shard that is to be encoded, and the job's shuffle seed (0 if the job doesn't shuffle).

        This method is called before the first batch, except when the planner encodes samples only to measure their sizes.
        """
        ...

    def encode(self, batch: pa.RecordBatch) -> Buffer:
        """Return the framed records of the batch, before compression. The buffer stays valid during the next two calls."""
        ...

    def pieces(self, batch: pa.RecordBatch) -> Sequence[Buffer]:
        """Return the same bytes as `encode`, as consecutive pieces, so that large values needn't be copied.

        The pieces stay valid during the next two calls.
        """
        ...

    def sizes(self) -> npt.NDArray[np.int64] | None:
        """Return the size in bytes of each record of the last batch, including framing, or None if the format has no record index."""
        ...

    def close(self) -> bytes:
        """Return the bytes that end the file. Most formats have none."""
        ...

    def rest(self) -> Iterator[bytes | bytearray | memoryview]:
        """Yield, in pieces, the bytes that come after the bytes returned by `close`.

        If a format's header depends on the last record, `close` returns the header, and this method yields the records. For most formats,
        this method yields nothing.
        """
        ...

    @staticmethod
    def compressor(output: Output) -> Compressor:
        """Return the compressor for the encoded bytes. For a format that compresses internally or not at all, the compressor is `Plain`."""
        ...

    def companions(self) -> Mapping[str, bytes]:
        """Return the small files that are stored beside this shard, keyed by name.

        The files are known only after `close`. Most formats have none.
        """
        ...

    def __enter__(self) -> Self: ...

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None: ...


@runtime_checkable
class TakesClasses(Protocol):
    """An encoder whose files contain the class names."""

    def take_classes(self, classes: Mapping[str, Sequence[str]]) -> None:
        """Set the class names of each feature. This method is called before the first batch."""
        ...


class SingleFile:
    """Base class with the defaults of most formats.

    Each shard is a single uncompressed file, numbers keep their types, and there are no nulls.
    """

    needs_a_value: ClassVar[bool] = False

    @staticmethod
    def numbers(_output: Output) -> DtypeSupport:
        """Numbers keep their types."""
        return DtypeSupport()

    @staticmethod
    def holds_null(_output: Output, _feature: FeatureSpec) -> bool:
        """Return False."""
        return False

    @staticmethod
    def keeps(_kind: pa.DataType) -> pa.DataType | None:
        """Return None."""
        return None

    @staticmethod
    def compressor(_output: Output) -> Compressor:
        """Return a compressor that changes nothing."""
        return Plain()

    def begin(self, shard: Shard, *, seed: int) -> None:
        """Do nothing: the bytes don't depend on the shard."""
        del shard, seed

    def encode(self, batch: pa.RecordBatch) -> Buffer:
        """See `Encoder`."""
        raise NotImplementedError

    def pieces(self, batch: pa.RecordBatch) -> Sequence[Buffer]:
        """Return a single piece, the buffer that `encode` returns."""
        return [self.encode(batch)]

    def sizes(self) -> npt.NDArray[np.int64] | None:
        """Return None: most formats have no record index."""
        return None

    def rest(self) -> Iterator[bytes | bytearray | memoryview]:
        """Return an empty iterator."""
        return iter(())

    def companions(self) -> Mapping[str, bytes]:
        """Return no files."""
        return {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        """Do nothing: most formats have no temporary files."""
