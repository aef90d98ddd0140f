"""The source `idx` reads pairs of files in IDX, MNIST's format.

    # The layout of a file:  00 00 | type | number of dimensions n | n x int32 sizes, the first is the number of samples | values
    # All numbers are big-endian, and values are row-major.
    # Types: 08 uint8, 09 int8, 0b int16, 0c int32, 0d float32, 0e float64

Each subset is a unit. If samples are read in order, remote files and gzip files are read in one pass. `rows.py` handles out-of-order reads,
and all reads from plain local files. Before `rows.py` reads a gzip file, the file is decompressed to an unlinked temporary file.
"""

import json
import math
import struct
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, ClassVar, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dataprep_api.spec import IdxSource, IdxSubset
from dataprep_converter.core.closeable import Closeable
from dataprep_converter.core.errors import BadData, BadSpec, ConvertError
from dataprep_converter.core.tensors import arrow_type, shape_fault, to_arrow
from dataprep_converter.inputs.access import Access
from dataprep_converter.inputs.compressions import GZIP_MAGIC
from dataprep_converter.inputs.metered import ByteCounter, MeteredInput
from dataprep_converter.inputs.pinned import ForwardReader, InputCopy, entry_of, open_pinned
from dataprep_converter.readers import Discovery, Listing
from dataprep_converter.readers.arrays.rows import Bytes, Rows, gathered, within_reads
from dataprep_converter.records.batch import SAMPLE, Batch
from dataprep_converter.sampling.units import Unit, Units
from dataprep_converter.stores import Input, scheme_of

TYPES: Final[Mapping[int, str]] = {0x08: "uint8", 0x09: "int8", 0x0B: "int16", 0x0C: "int32", 0x0D: "float32", 0x0E: "float64"}

_SKIPPED_BYTES = 8 << 20
"""The largest gap, in bytes, that a pass over a plain file reads and discards. To get past a larger gap, the pass opens a new stream."""
_LARGEST_VALUE_COUNT = 1 << 40


@dataclass(frozen=True)
class Header:
    """The header of an IDX file."""

    dtype: str
    shape: tuple[int, ...]
    size: int
    """The size of the header in bytes."""

    @property
    def records(self) -> int:
        """The number of samples in the file."""
        return self.shape[0]

    @property
    def row_bytes(self) -> int:
        """The size of a sample in bytes."""
        return math.prod(self.shape[1:]) * np.dtype(self.dtype).itemsize

    @property
    def file_bytes(self) -> int:
        """The size of the complete file in bytes, uncompressed."""
        return self.size + self.records * self.row_bytes


class IdxReader(Closeable):
    """See the module. The columns are `image`, `label` (if the subsets have labels), `height`, `width` and `depth`."""

    default_label: ClassVar[str] = "label"

    @staticmethod
    def discover(source: IdxSource, access: Access) -> Discovery:
        """Reads the headers. Raises NotFound for a missing file, BadData for an invalid or truncated IDX file, and BadSpec for subsets that
        don't match."""
        return Discovery(_units(source, access))

    def __init__(self, source: IdxSource, state: Mapping[str, Any], access: Access) -> None:
        self._idx = source
        self._access = access
        self._dtype: str = state.get("dtype", "uint8")
        self._shape: tuple[int, ...] = tuple(state.get("shape", ()))
        self._has_labels: bool = bool(state.get("labels", False))
        self._count = ByteCounter()
        self._files: dict[str, _File] = {}

    def close(self) -> None:
        """Closes the files."""
        while self._files:
            self._files.popitem()[1].close()

    def schema(self) -> pa.Schema:
        """The columns. The image is a tensor with the shape and type in the file."""
        fields: list[tuple[str, pa.DataType]] = [("image", arrow_type(self._dtype, self._shape))]
        if self._has_labels:
            fields.append(("label", pa.int64()))
        return pa.schema([*fields, *((name, pa.int64()) for name in self._constants())])

    def classes(self) -> dict[str, list[str]]:
        """An empty dict, because an IDX file has only numbers."""
        return {}

    def read(self, units: Units, samples: Iterator[npt.NDArray[np.int64]]) -> Iterator[Batch]:
        """Yields a batch for each array of sample numbers. If the sample numbers are in order, this method is as fast as reading the file
        sequentially."""
        for sample_numbers in samples:
            yield self._batch(units, sample_numbers)

    def _batch(self, units: Units, sample_numbers: npt.NDArray[np.int64]) -> Batch:
        def images(unit: Unit, rows: npt.NDArray[np.int64]) -> npt.NDArray[Any]:
            return self._file(unit.uri, unit.pin).take(rows)

        def labels(unit: Unit, rows: npt.NDArray[np.int64]) -> npt.NDArray[Any]:
            extra = json.loads(unit.extra)
            return self._file(extra["labels"], extra["labelsPin"]).take(rows)

        columns = {
            "image": to_arrow(gathered(units, sample_numbers, images) if len(sample_numbers) else np.empty((0, *self._shape), self._dtype))
        }
        if self._has_labels:
            columns["label"] = to_arrow(
                (gathered(units, sample_numbers, labels) if len(sample_numbers) else sample_numbers).astype(np.int64)
            )
        columns |= {name: to_arrow(np.full(len(sample_numbers), value, np.int64)) for name, value in self._constants().items()}
        return Batch(records=pa.record_batch({**columns, SAMPLE: to_arrow(sample_numbers)}), bad=[], bytes_in=self._count.take_count())

    def _constants(self) -> dict[str, int]:
        """The height, width and depth of every image. The dict is empty if images have fewer than two dimensions. If images have two
        dimensions, the depth is 1."""
        if len(self._shape) < 2:
            return {}
        return {"height": self._shape[0], "width": self._shape[1], "depth": self._shape[2] if len(self._shape) > 2 else 1}

    def _file(self, uri: str, pin: str) -> "_File":
        if uri not in self._files:
            with ExitStack() as cleanup:
                source = cleanup.enter_context(MeteredInput(open_pinned(self._access.store(uri), uri, pin), self._count))
                self._files[uri] = _File(source, uri)
                cleanup.pop_all()
        return self._files[uri]


def _units(idx: IdxSource, access: Access) -> Listing[Unit]:
    first: tuple[IdxSubset, Header] | None = None
    for number, subset in enumerate(idx.subsets):
        entry = entry_of(access.store(subset.images), subset.images)
        images = _header_of(access, subset.images)
        first = first or (subset, images)
        if (images.dtype, images.shape[1:]) != (first[1].dtype, first[1].shape[1:]):
            raise BadSpec(
                f"All subsets need images of one type and shape: {first[0].images} has {_describe(first[1])}, {subset.images} has {_describe(images)}."
            )
        if (subset.labels is None) != (first[0].labels is None):
            without = subset if subset.labels is None else first[0]
            raise BadSpec(
                f"Either all subsets must have labels, or none of them: the subset {without.name!r} has no labels, but another subset has labels."
            )
        size, extra = entry.size, {}
        if subset.labels is not None:
            labels_entry = entry_of(access.store(subset.labels), subset.labels)
            _check_labels(_header_of(access, subset.labels), images, subset)
            size += labels_entry.size
            extra = {"labels": subset.labels, "labelsPin": labels_entry.pin}
        if images.records:
            yield Unit(
                root=number,
                path=subset.name,
                uri=subset.images,
                records=images.records,
                size=size,
                pin=entry.pin,
                subset=subset.name,
                extra=json.dumps(extra),
            )
    if first is None:
        return {}
    return {"dtype": first[1].dtype, "shape": list(first[1].shape[1:]), "labels": first[0].labels is not None}


def _check_labels(labels: Header, images: Header, subset: IdxSubset) -> None:
    if len(labels.shape) != 1 or labels.dtype.startswith("float"):
        raise BadData(
            f"{subset.labels}: labels must be one whole number per record, got {_describe(labels)} in {len(labels.shape)} dimensions.",
            uri=subset.labels,
        )
    if labels.records != images.records:
        raise BadData(
            f"{subset.images} has {images.records:,} images, but {subset.labels} has {labels.records:,} labels: they don't belong together.",
            uri=subset.labels,
        )


def _describe(header: Header) -> str:
    return f"{header.dtype}{list(header.shape[1:])}"


def _header_of(access: Access, uri: str) -> Header:
    with access.store(uri).open(uri) as source:
        zipped = _is_zipped(source)
        header = parse_header(ForwardReader(source, uri, compression="gzip" if zipped else None), uri)
        if not zipped and source.size != header.file_bytes:
            raise _wrong_size(uri, header, source.size)
    return header


def _is_zipped(source: Input) -> bool:
    return source.read_at(0, 2) == GZIP_MAGIC


def _wrong_size(uri: str, header: Header, size: int) -> ConvertError:
    what = "is truncated" if size < header.file_bytes else "is too long"
    return BadData(
        f"{uri} {what}: its header says {header.records:,} x {_describe(header)}, which needs {header.file_bytes:,} bytes, got {size:,}.",
        uri=uri,
    )


def parse_header(start: ForwardReader, uri: str) -> Header:
    """Reads the header at the start of a file. If the header is invalid, raises BadData, which says what was expected and what was
    found."""
    magic = start.read(4)
    if len(magic) < 4 or magic[:2] != b"\0\0" or magic[2] not in TYPES or magic[3] == 0:
        types = ", ".join(f"{code:02x} {name}" for code, name in TYPES.items())
        raise BadData(
            f"{uri} is not an IDX file: expected 00 00, a type ({types}) and the number of dimensions, got {magic.hex(' ') or 'an empty file'}.",
            uri=uri,
        )
    sizes = start.read(4 * magic[3])
    if len(sizes) < 4 * magic[3]:
        raise BadData(f"{uri} is truncated: its header has {magic[3]} dimensions, but the file ends after {4 + len(sizes)} bytes.", uri=uri)
    shape = struct.unpack(f">{magic[3]}i", sizes)
    if min(shape) < 0 or 0 in shape[1:] or math.prod(shape) > _LARGEST_VALUE_COUNT:
        raise BadData(f"{uri}: the header's dimensions {list(shape)} can't be right.", uri=uri)
    if fault := shape_fault(shape[1:]):
        raise BadData(f"{uri}: no record can hold its rows: {fault}.", uri=uri)
    return Header(dtype=TYPES[magic[2]], shape=shape, size=4 + 4 * magic[3])


class _File(Closeable):
    """Reads samples of a file by number, and returns the samples in native byte order."""

    def __init__(self, source: Input, uri: str) -> None:
        self._source = source
        self._uri = uri
        self._cleanup = ExitStack()
        self._is_zipped = _is_zipped(source)
        self._is_far = scheme_of(uri) not in ("", "file")
        self._forward = ForwardReader(source, uri, compression="gzip" if self._is_zipped else None)
        self.header = parse_header(self._forward, uri)
        self._dtype_in_file = np.dtype(self.header.dtype).newbyteorder(">")
        self._rows = None if self._is_zipped else self._open_rows(source, copy=self._make_copy if self._is_far else None)

    def take(self, rows: npt.NDArray[np.int64]) -> npt.NDArray[Any]:
        """The given rows, in the given order. `rows` must not be empty."""
        if (self._rows is None or (self._is_far and not self._rows.is_copied)) and self._continue_pass(rows):
            data = self._read_in_pass(rows)
        else:
            self._rows = self._rows or self._open_rows(self._cleanup.enter_context(self._make_copy()), copy=None)
            data = self._rows.take(rows)
        return data.view(self._dtype_in_file).reshape(-1, *self.header.shape[1:]).astype(self.header.dtype, copy=False)

    def close(self) -> None:
        """Closes the file and removes its copy."""
        self._forward.close()
        self._cleanup.close()
        if self._rows is not None:
            self._rows.close()
        self._source.close()

    def _open_rows(self, source: Input | InputCopy, *, copy: Callable[[], InputCopy] | None) -> Rows:
        return Rows(source, self._uri, start=self.header.size, row_bytes=self.header.row_bytes, copy=copy)

    def _make_copy(self) -> InputCopy:
        copy = InputCopy(ForwardReader(self._source, self._uri, compression="gzip" if self._is_zipped else None))
        if copy.size != self.header.file_bytes:
            copy.close()
            raise _wrong_size(self._uri, self.header, copy.size)
        return copy

    def _continue_pass(self, rows: npt.NDArray[np.int64]) -> bool:
        """Returns whether it is best to read the given rows in one pass over the file. If one pass is best, prepares the pass to read these
        rows."""
        steps = np.diff(rows)
        offset = self._place(int(rows[0]))
        if np.any(steps < 1) or (self._is_zipped and offset < self._forward.position):
            return False
        if self._is_zipped:
            return True
        if len(steps) and int(steps.max()) * self.header.row_bytes > _SKIPPED_BYTES:
            return False
        if not 0 <= offset - self._forward.position <= _SKIPPED_BYTES:
            self._forward = ForwardReader(self._source, self._uri, compression=None, offset=offset)
        return True

    def _read_in_pass(self, rows: npt.NDArray[np.int64]) -> Bytes:
        """Reads the given rows, which must ascend, in the current pass over the file."""
        out = np.empty((len(rows), self.header.row_bytes), np.uint8)
        for low, high in within_reads(rows, self.header.row_bytes):
            first = int(rows[low])
            self._forward.skip_to(self._place(first))
            data = self._read_bytes((int(rows[high - 1]) + 1 - first) * self.header.row_bytes)
            out[low:high] = np.frombuffer(data, np.uint8).reshape(-1, self.header.row_bytes)[rows[low:high] - first]
        return out

    def _read_bytes(self, length: int) -> bytes:
        data = self._forward.read(length)
        if len(data) < length:
            raise _wrong_size(self._uri, self.header, self._forward.position)
        # The size and the CRC of a gzip file are known only at its end.
        if self._is_zipped and self._forward.position == self.header.file_bytes and self._forward.read(1):
            raise _wrong_size(self._uri, self.header, self.header.file_bytes + 1)
        return data

    def _place(self, row: int) -> int:
        return self.header.size + row * self.header.row_bytes
