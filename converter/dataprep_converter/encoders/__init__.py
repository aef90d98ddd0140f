"""Encoders: a whole Arrow batch at once into the bytes of one format. One file per format."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from importlib import import_module
from typing import Any, Final, Protocol, TypeAlias, runtime_checkable

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dataprep_api.plan import Shard
from dataprep_api.spec import Output
from dataprep_converter.compression import Compressor, Plain
from dataprep_converter.errors import BadSpec

Buffer: TypeAlias = bytes | bytearray | memoryview

ENCODERS: Final[Mapping[str, str]] = {
    "tfrecord": "dataprep_converter.encoders.tfrecord:TfrecordEncoder",
    "recordioProtobuf": "dataprep_converter.encoders.recordio:RecordioEncoder",
    "sequenceFile": "dataprep_converter.encoders.sequence_file:SequenceFileEncoder",
    "mapFile": "dataprep_converter.encoders.map_file:MapFileEncoder",
    "parquet": "dataprep_converter.encoders.parquet:ParquetEncoder",
    "arrow": "dataprep_converter.encoders.arrow:ArrowEncoder",
    "jsonl": "dataprep_converter.encoders.jsonl:JsonlEncoder",
    "csv": "dataprep_converter.encoders.delimited:CsvEncoder",
    "npz": "dataprep_converter.encoders.npz:NpzEncoder",
    "fileBatch": "dataprep_converter.encoders.file_batch:FileBatchEncoder",
    "dl4jDataset": "dataprep_converter.encoders.dl4j_dataset:Dl4jDatasetEncoder",
    "webdataset": "dataprep_converter.encoders.webdataset:WebdatasetEncoder",
    "mds": "dataprep_converter.encoders.mds:MdsEncoder",
    "arrayRecord": "dataprep_converter.encoders.array_record:ArrayRecordEncoder",
}
"""`spec.output.format` → class. Adding a format is one line here and one file."""


@dataclass(frozen=True)
class Numbers:
    """In which types a format holds numbers. All names are numpy's."""

    unasked: Mapping[str, str] = field(default_factory=dict)
    """What is stored in another type than its own when the spec names none."""
    held: frozenset[str] | None = None
    """All types that it can hold; None for any."""
    raw: bool = False
    """Whether a tensor can be stored as its bytes, which is then the default for small integers."""
    as_they_are: frozenset[str] = frozenset()
    """Features that keep their types all the same, because they are no values of the records."""


@dataclass(frozen=True)
class FeatureSpec:
    """One feature of the records, resolved: what the encoder is given as a column of the same name."""

    name: str
    kind: str
    """`int64`, `float` or `bytes`: the list type of tf.train.Feature."""
    dtype: str
    """numpy name of the values, or `bytes`."""
    shape: tuple[int, ...]
    """Shape of a tensor, () of a scalar or a bytes value, (-1,) of lists of any length. A sequence's begins with -1 for its steps."""
    raw: bool = False
    """A tensor stored as its bytes; in a sequence, that of each step."""
    label: bool = False
    sequence: bool = False
    """A list of steps, each a value, a vector (a fixed_size_list or tensor) or a list of any length."""
    record: bool = False
    """Whole records that are serialised already; such a feature is alone."""
    place: int = field(default=0, compare=False)
    """In the order of the spec, features before labels: the order of the columns, where a format's columns have one."""
    text: bool = False
    """Whether all columns of a feature of `bytes` are text (UTF-8) by their type."""


class Encoder(Protocol):
    """Made once per shard; holds no more than one batch. The same batches cut anywhere else give the same bytes."""

    def __init__(self, output: Output, features: Sequence[FeatureSpec]) -> None: ...

    @staticmethod
    def extension(output: Output) -> str:
        """File extension without a leading dot: `tfrecords`."""
        ...

    @staticmethod
    def numbers(output: Output) -> Numbers:
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
        """What stands behind that, in pieces: the records of a format whose file begins with what only the last one tells. Often nothing."""
        ...

    @staticmethod
    def compressor(output: Output) -> Compressor:
        """What the finished bytes go through; `Plain` for a format that compresses inside, or not at all."""
        ...

    def companions(self) -> Mapping[str, bytes]:
        """Small visible files that belong to this shard, by name beside it; known after `close`. Often none."""
        ...


@runtime_checkable
class TakesClasses(Protocol):
    """An encoder whose files name the classes."""

    def take_classes(self, classes: Mapping[str, Sequence[str]]) -> None:
        """Class names by feature; said before the first batch."""
        ...


class SingleFile:
    """What most formats say: the encoder's bytes are the file, it is alone, and numbers keep their types."""

    @staticmethod
    def numbers(_output: Output) -> Numbers:
        """In their own."""
        return Numbers()

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


def encoder_class(name: str) -> type[Encoder]:
    """The class of a format. Raises BadSpec naming the known ones."""
    if name not in ENCODERS:
        raise BadSpec(f"No format named {name!r}; known: {', '.join(sorted(ENCODERS))}.")
    module, _, attribute = ENCODERS[name].partition(":")
    found: type[Encoder] = getattr(import_module(module), attribute)
    return found


def describe(features: Sequence[FeatureSpec]) -> list[dict[str, Any]]:
    """The features for the manifest."""
    return [asdict(feature) | {"shape": list(feature.shape)} for feature in features]
