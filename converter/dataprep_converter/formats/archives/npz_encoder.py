"""Encoder for `npz`: a zip archive of NumPy arrays, `features/<name>.npy` and `labels/<name>.npy`.

The first dimension of each array has one entry per record of the file.

    # An array:  93 NUMPY | 1 0 | uint16 header length | header in Python's notation, spaces, \\n | values
    #            The values are row-major and little-endian, and begin at a position that is a multiple of 64.

The header contains the number of records, so values are held in memory until the file ends.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa

from dataprep_api.spec import Output
from dataprep_converter.core.errors import BadSpec
from dataprep_converter.formats.archives.number_buffer import NumberBuffer, Values
from dataprep_converter.formats.archives.zip_encoder import Bytes, Zip
from dataprep_converter.formats.encoder import SingleFile
from dataprep_converter.records.feature import FeatureSpec

MAGIC: Final = b"\x93NUMPY\x01\x00"
_ALIGNED: Final = 64


class NpzEncoder(SingleFile):
    """Encodes one archive (see the module's docstring). Holds all of the archive's values in memory."""

    def __init__(self, output: Output, features: Sequence[FeatureSpec]) -> None:
        self._deflated = output.npz.compression == "Deflate"
        for feature in features:
            if feature.sequence:
                raise BadSpec(f"The feature {feature.name!r} is a sequence, but npz holds arrays of a fixed shape.")
        self._buffers = {member_name(feature): NumberBuffer(feature, format_="npz") for feature in features}

    @staticmethod
    def extension(_output: Output) -> str:
        """Return `npz`."""
        return "npz"

    def encode(self, batch: pa.RecordBatch) -> bytes:
        """Hold the batch and return no bytes yet."""
        for buffer in self._buffers.values():
            buffer.add(batch.column(buffer.feature.name))
        return b""

    def close(self) -> bytes:
        """Return no bytes yet: joining the arrays here would hold them in memory twice."""
        return b""

    def rest(self) -> Iterator[Bytes]:
        """Yield the complete file in pieces."""
        archive = Zip(deflated=self._deflated)
        for name, buffer in self._buffers.items():
            dtype = np.dtype(buffer.feature.dtype).newbyteorder("<")
            records = sum(map(len, buffer.parts))
            values = [_bytes(part.astype(dtype, copy=False)) for part in buffer.parts]
            yield from archive.add(name, [header(dtype, (records, *buffer.feature.shape)), *values])
        yield archive.end()


def member_name(feature: FeatureSpec) -> str:
    """Return the name of a feature's array in the archive.

    Raises BadSpec for a name that would be unpacked outside the target folder.
    """
    if any(part in ("", ".", "..") for part in feature.name.split("/")) or "\\" in feature.name or "\0" in feature.name:
        raise BadSpec(
            f"npz can't name an array {feature.name!r}, because this name isn't a path below a folder. Give the feature another name."
        )
    return f"{'labels' if feature.label else 'features'}/{feature.name}.npy"


def header(dtype: np.dtype[Any], shape: tuple[int, ...]) -> bytes:
    """Return the header that precedes an array's values."""
    text = f"{{'descr': {dtype.str!r}, 'fortran_order': False, 'shape': {shape!r}, }}"
    spaces = " " * (-(len(MAGIC) + 2 + len(text) + 1) % _ALIGNED)
    padded_text = f"{text}{spaces}\n".encode("latin-1")
    return MAGIC + len(padded_text).to_bytes(2, "little") + padded_text


def _bytes(values: Values) -> memoryview:
    # A memoryview of an empty array can't be cast.
    return memoryview(np.ascontiguousarray(values).reshape(-1).view(np.uint8).data) if values.size else memoryview(b"")
