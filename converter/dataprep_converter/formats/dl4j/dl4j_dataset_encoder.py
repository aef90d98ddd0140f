"""Encoder for `dl4jDataset`: each file is one minibatch in the format that ND4J's `DataSet.save` or `MultiDataSet.save` writes.

    # A DataSet:       byte of flags: 1 features, 2 labels, 8 feature mask, 16 label mask | the flagged arrays in this order
    # A MultiDataSet:  int32 numbers of features, labels, feature masks, label masks | the arrays in this order       (big-endian)

Each array is in ND4J's format (see `nd4j.py`). Its first dimension has one entry per record. Scalars and vectors become two-dimensional
arrays, and tensors keep their shape. A sequence feature becomes an array [records, values per step, steps], which is padded with zeros to
the length of the file's longest sequence. A mask [records, steps] then has 1 for each step and 0 for padding. A file without records has no
arrays.
"""

import struct
from collections.abc import Sequence
from typing import Final

import numpy as np
import pyarrow as pa

from dataprep_api.spec import Output
from dataprep_converter.core.errors import BadSpec
from dataprep_converter.core.tensors import NUMPY_NAMES
from dataprep_converter.formats.archives.number_buffer import NumberBuffer, Values
from dataprep_converter.formats.dl4j import nd4j
from dataprep_converter.formats.encoder import SingleFile
from dataprep_converter.records.feature import DtypeSupport, FeatureSpec

FEATURES: Final = 1
LABELS: Final = 2
FEATURES_MASK: Final = 8
LABELS_MASK: Final = 16
COUNTS: Final = struct.Struct(">4i")


class Dl4jDatasetEncoder(SingleFile):
    """Encodes one file (see the module's docstring). Keeps all values of the file in memory."""

    def __init__(self, output: Output, features: Sequence[FeatureSpec]) -> None:
        self._is_multi = output.dl4j_dataset.holds == "MultiDataSet"
        buffers = [NumberBuffer(feature, format_="dl4jDataset") for feature in sorted(features, key=lambda feature: feature.place)]
        for buffer in buffers:
            if buffer.feature.sequence and len(buffer.step_shape) > 1:
                raise BadSpec(
                    f"The feature {buffer.feature.name!r} has steps of shape {list(buffer.step_shape)}, but in dl4jDataset a step is a single value or a vector."
                )
        self._features = [buffer for buffer in buffers if not buffer.feature.label]
        self._labels = [buffer for buffer in buffers if buffer.feature.label]
        if not self._features:
            raise BadSpec("dl4jDataset needs at least one feature that isn't a label.")
        if not self._is_multi:
            _check_single(self._features, "feature")
            _check_single(self._labels, "label")

    @staticmethod
    def extension(_output: Output) -> str:
        """Return `bin`."""
        return "bin"

    @staticmethod
    def numbers(_output: Output) -> DtypeSupport:
        """Unless the spec says otherwise, numbers become float32, the type in which DL4J's networks compute."""
        return DtypeSupport(unasked=dict.fromkeys(NUMPY_NAMES.values(), "float32"), held=frozenset(nd4j.KINDS))

    def encode(self, batch: pa.RecordBatch) -> bytes:
        """Keep the batch in memory, and return no bytes yet."""
        for buffer in (*self._features, *self._labels):
            buffer.add(batch.column(buffer.feature.name))
        return b""

    def close(self) -> bytes:
        """Return the complete file."""
        features, feature_masks = _arrays(self._features)
        labels, label_masks = _arrays(self._labels)
        if not len(features[0]):
            return COUNTS.pack(0, 0, 0, 0) if self._is_multi else b"\0"
        parts = (features, labels, feature_masks, label_masks)
        if self._is_multi:
            head = COUNTS.pack(*map(len, parts))
        else:
            bits = (FEATURES, LABELS, FEATURES_MASK, LABELS_MASK)
            head = bytes([sum(bit for bit, part in zip(bits, parts, strict=True) if part)])
        return b"".join([head, *(piece for part in parts for array in part for piece in nd4j.array(array))])


def _check_single(buffers: Sequence[NumberBuffer], kind: str) -> None:
    if len(buffers) > 1:
        names = ", ".join(buffer.feature.name for buffer in buffers)
        raise BadSpec(
            f"A DataSet has one array of {kind}s, but there are {len(buffers)}: {names}. Join columns into one {kind}, or set output.dl4jDataset.holds: MultiDataSet."
        )


def _arrays(buffers: Sequence[NumberBuffer]) -> tuple[list[Values], list[Values]]:
    """Return the arrays and their masks. If any array needs a mask, every array gets a mask."""
    masked_arrays = [
        _pad_sequences(buffer) if buffer.feature.sequence else (_reshape_to_matrix(buffer.values()), None) for buffer in buffers
    ]
    arrays = [array for array, _ in masked_arrays]
    if all(mask is None for _, mask in masked_arrays):
        return arrays, []
    # Write a mask of ones instead of ND4J's placeholder for a missing mask, because only the process that wrote a placeholder recognises
    # it.
    return arrays, [np.ones((len(array), 1), np.float32) if mask is None else mask for array, mask in masked_arrays]


def _reshape_to_matrix(values: Values) -> Values:
    return values.reshape(len(values), 1) if values.ndim == 1 else values


def _pad_sequences(buffer: NumberBuffer) -> tuple[Values, Values]:
    """Return the sequences as an array [records, values, steps], and the mask of this array."""
    steps, counts = buffer.values(), buffer.counts()
    steps = steps.reshape(len(steps), -1) if len(steps) else np.empty((0, buffer.step_shape[0] if buffer.step_shape else 1), steps.dtype)
    longest = max(1, int(counts.max(initial=0)))
    mask = (np.arange(longest) < counts[:, np.newaxis]).astype(np.float32)
    rows, places = np.nonzero(mask)
    values = np.zeros((len(counts), steps.shape[1], longest), steps.dtype)
    values[rows, :, places] = steps
    return values, mask
