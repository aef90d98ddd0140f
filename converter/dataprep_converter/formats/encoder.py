"""Encoders: a whole Arrow batch at once into the bytes of one format. One file per format."""

from collections.abc import Iterator, Mapping, Sequence
from types import TracebackType
from typing import Protocol, Self, runtime_checkable

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dataprep_api.dataset.plan import Shard
from dataprep_api.spec import Output
from dataprep_converter.core.buffers import Buffer
from dataprep_converter.core.compression import Compressor, Plain
from dataprep_converter.records.feature import DtypeSupport, FeatureSpec


class Encoder(Protocol):
    """Made once per shard; holds no more than one batch. The same batches cut anywhere else give the same bytes.

    A context manager: its end removes temporary files, of an encoder that failed too.
    """

    def __init__(self, output: Output, features: Sequence[FeatureSpec]) -> None: ...

    @staticmethod
    def extension(output: Output) -> str:
        """File extension without a leading dot: `tfrecords`."""
        ...

    @staticmethod
    def numbers(output: Output) -> DtypeSupport:
        """In which types numbers are stored."""
        ...

    def begin(self, shard: Shard, *, seed: int) -> None:
        """Says before the first batch which shard this is, and the job's shuffle seed (0 for none). Not said while a plan measures sizes."""
        ...

    def encode(self, batch: pa.RecordBatch) -> Buffer:
        """The framed records of the batch, one after another, before compression. The buffer is valid until the third call after this one."""
        ...

    def pieces(self, batch: pa.RecordBatch) -> Sequence[Buffer]:
        """What `encode` gives, in pieces that follow each other: large values needn't be copied. As long valid."""
        ...

    def sizes(self) -> npt.NDArray[np.int64] | None:
        """Bytes of each record of the last batch, framing included; None for a format without an index of records."""
        ...

    def close(self) -> bytes:
        """What ends the file; often nothing."""
        ...

    def rest(self) -> Iterator[bytes | bytearray | memoryview]:
        """Bytes written after `close`, in pieces: the records of a format whose header depends on the last record. Often nothing."""
        ...

    @staticmethod
    def compressor(output: Output) -> Compressor:
        """What the finished bytes go through; `Plain` for a format that compresses inside, or not at all."""
        ...

    def companions(self) -> Mapping[str, bytes]:
        """Small visible files that belong to this shard, by name beside it; known after `close`. Often none."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None: ...


@runtime_checkable
class TakesClasses(Protocol):
    """An encoder whose files name the classes."""

    def take_classes(self, classes: Mapping[str, Sequence[str]]) -> None:
        """Class names by feature; said before the first batch."""
        ...


class SingleFile:
    """What most formats say: the encoder's bytes are the file, it is alone, and numbers keep their types."""

    @staticmethod
    def numbers(_output: Output) -> DtypeSupport:
        """In their own."""
        return DtypeSupport()

    @staticmethod
    def compressor(_output: Output) -> Compressor:
        """None."""
        return Plain()

    def begin(self, shard: Shard, *, seed: int) -> None:
        """The bytes are the same for any shard."""
        del shard, seed

    def encode(self, batch: pa.RecordBatch) -> Buffer:
        """See `Encoder`."""
        raise NotImplementedError

    def pieces(self, batch: pa.RecordBatch) -> Sequence[Buffer]:
        """The one."""
        return [self.encode(batch)]

    def sizes(self) -> npt.NDArray[np.int64] | None:
        """Nobody asks for them."""
        return None

    def rest(self) -> Iterator[bytes | bytearray | memoryview]:
        """Nothing."""
        return iter(())

    def companions(self) -> Mapping[str, bytes]:
        """None."""
        return {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        """Most formats have no temporary files."""
