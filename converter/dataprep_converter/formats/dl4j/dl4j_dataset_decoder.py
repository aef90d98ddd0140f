"""Decoder for `dl4jDataset`: a record is one row of each array. A sequence's row is truncated to the steps that its mask marks as present.

The decoder holds the complete file in memory.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

import numpy as np

from dataprep_api.dataset.report import Manifest
from dataprep_converter.core.errors import BrokenRecord
from dataprep_converter.formats.archives.number_buffer import Values
from dataprep_converter.formats.dl4j.dl4j_dataset_encoder import COUNTS, FEATURES, FEATURES_MASK, LABELS, LABELS_MASK
from dataprep_converter.formats.dl4j.nd4j import KINDS, MODE, ROW_MAJOR

_PARTS: Final = (FEATURES, LABELS, FEATURES_MASK, LABELS_MASK)
_MOST_DIMENSIONS: Final = 32
_NAMES: Final = {kind.name: name for name, kind in KINDS.items()}


class Dl4jDatasetDecoder:
    """Decodes each record to one row of each array. A sequence's row is truncated to its steps."""

    def __init__(self, manifest: Manifest) -> None:
        order = sorted(manifest.features, key=lambda feature: int(feature["place"]))
        self._features = [feature for feature in order if not feature["label"]]
        self._labels = [feature for feature in order if feature["label"]]
        options = manifest.content["output"].get("dl4jDataset") or {}
        self._is_multi = options.get("holds") == "MultiDataSet"

    def read(self, pieces: Iterable[bytes]) -> Iterator[tuple[int, dict[str, Values]]]:
        """Yield the records. Every record has the offset of the first array, because a record spans all arrays."""
        data = _Bytes(b"".join(pieces))
        counts = self._counts(data)
        first = data.at
        parts = [[_array(data) for _ in range(count)] for count in counts]
        if data.at != len(data.content):
            raise BrokenRecord(f"{len(data.content) - data.at} bytes after the last array", offset=data.at)
        if not any(counts):
            return
        features, labels, feature_masks, label_masks = parts
        arrays = dict(
            self._pair_with_names(self._features, features, feature_masks) + self._pair_with_names(self._labels, labels, label_masks)
        )
        lengths = {len(array) for part in parts for array in part}
        if len(lengths) > 1:
            raise BrokenRecord(
                f"the arrays of one file have different numbers of records: {' and '.join(map(str, sorted(lengths)))}", offset=first
            )
        for number in range(lengths.pop()):
            yield first, {name: _row(array[number], mask, number) for name, (array, mask) in arrays.items()}

    def parse(self, record: dict[str, Values]) -> dict[str, Any]:
        """Return the values as flat lists, or as a list of steps for a sequence."""
        sequences = {feature["name"] for feature in (*self._features, *self._labels) if feature["sequence"]}
        return {name: (values if name in sequences else np.ravel(values)).tolist() for name, values in record.items()}

    def _counts(self, data: "_Bytes") -> list[int]:
        """Return the number of arrays of each kind: features, labels, feature masks and label masks.

        Raises BrokenRecord if the numbers differ from the manifest. A file without records has no arrays, so zeros are valid too.
        """
        expected_counts = [len(self._features), len(self._labels), *(self._masks(part) for part in (self._features, self._labels))]
        if self._is_multi:
            counts = list(COUNTS.unpack(data.take(COUNTS.size)))
            if any(counts) and counts != expected_counts:
                raise BrokenRecord(f"the array counts are {counts}, expected {expected_counts}", offset=0)
            return counts
        (flags,) = data.take(1)
        expected = sum(bit for bit, count in zip(_PARTS, expected_counts, strict=True) if count)
        if flags not in (0, expected):
            raise BrokenRecord(f"flags {flags:#04x}, expected {expected:#04x}", offset=0)
        return expected_counts if flags else [0, 0, 0, 0]

    def _masks(self, part: Sequence[dict[str, Any]]) -> int:
        return len(part) if any(feature["sequence"] for feature in part) else 0

    def _pair_with_names(
        self, specs: Sequence[dict[str, Any]], arrays: Sequence[Values], masks: Sequence[Values]
    ) -> list[tuple[str, tuple[Values, Values | None]]]:
        """Return a (name, (array, mask)) pair for each feature. The mask is None unless the feature is a sequence."""
        array_masks: Sequence[Values | None] = masks or [None] * len(arrays)
        return [
            (spec["name"], (array, mask if spec["sequence"] else None))
            for spec, array, mask in zip(specs, arrays, array_masks, strict=True)
        ]


def _row(values: Values, mask: Values | None, number: int) -> Values:
    return values if mask is None else values.T[mask[number].astype(bool)]


class _Bytes:
    """The bytes of the file, which are consumed from the beginning."""

    def __init__(self, content: bytes) -> None:
        self.content = content
        self.at = 0

    def take(self, size: int) -> bytes:
        """Return the next `size` bytes. Raises BrokenRecord if fewer than `size` bytes are left."""
        if size > len(self.content) - self.at:
            raise BrokenRecord(f"truncated: {len(self.content) - self.at} of {size} bytes", offset=self.at)
        self.at += size
        return self.content[self.at - size : self.at]

    def number(self, size: int) -> int:
        """Return the next `size` bytes as a big-endian integer."""
        return int.from_bytes(self.take(size), "big")


def _array(data: _Bytes) -> Values:
    begin = data.at
    kind, length = _buffer(data)
    if kind != "LONG" or not 6 <= length <= 2 * _MOST_DIMENSIONS + 4 or length % 2:
        raise BrokenRecord(f"expected the shape of an array, got {length} values of {kind}", offset=begin)
    rank, *rest = (int(value) for value in np.frombuffer(data.take(8 * length), ">i8"))
    dimensions = length // 2 - 2
    shape, strides, (flags, spread, order) = rest[:dimensions], rest[dimensions:-3], rest[-3:]
    row_major_strides = [math.prod(shape[axis + 1 :]) for axis in range(dimensions)]
    if rank != dimensions or strides != row_major_strides or (spread, order) != (1, ROW_MAJOR) or min(shape) < 1:
        raise BrokenRecord(f"expected the shape of a row-major array, got {[rank, *rest]}", offset=begin)
    begin = data.at
    kind, length = _buffer(data)
    if kind not in _NAMES or flags != KINDS[_NAMES[kind]].flags or length != math.prod(shape):
        raise BrokenRecord(f"expected {math.prod(shape)} values for the shape {shape}, got {length} of {kind}", offset=begin)
    dtype = np.dtype(_NAMES[kind]).newbyteorder(">")
    return np.frombuffer(data.take(dtype.itemsize * length), dtype).reshape(shape)


def _buffer(data: _Bytes) -> tuple[str, int]:
    """Return the type and the length of the next buffer."""
    begin = data.at
    mode = data.take(data.number(2))
    if mode != MODE:
        raise BrokenRecord(f"expected an ND4J buffer, got {mode[:16]!r}", offset=begin)
    length = data.number(8)
    return data.take(data.number(2)).decode("latin-1"), length
