"""`npz`: a zip of NumPy arrays, `features/<name>.npy` and `labels/<name>.npy`, with the records of a file along the first dimension.

    # An array:  93 NUMPY | 1 0 | uint16 length of what follows up to the values | header in Python's notation, spaces, \\n | values
    #            row-major and little-endian; they begin at a multiple of 64

The header says how many records there are, so values are held until the file ends.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa

from dataprep_api.spec import Output
from dataprep_converter.core.errors import BadSpec
from dataprep_converter.formats.archives.held import Held, Values
from dataprep_converter.formats.archives.zip_encoder import Bytes, Zip
from dataprep_converter.formats.encoder import SingleFile
from dataprep_converter.records.feature import FeatureSpec

MAGIC: Final = b"\x93NUMPY\x01\x00"
_ALIGNED: Final = 64


class NpzEncoder(SingleFile):
    """See the module. Holds the values of one file."""

    def __init__(self, output: Output, features: Sequence[FeatureSpec]) -> None:
        self._deflated = output.npz.compression == "Deflate"
        for feature in features:
            if feature.sequence:
                raise BadSpec(f"The feature {feature.name!r} is a sequence, and npz holds arrays of one shape.")
        self._held = {member_name(feature): Held(feature, format_="npz") for feature in features}

    @staticmethod
    def extension(_output: Output) -> str:
        """`npz`."""
        return "npz"

    def encode(self, batch: pa.RecordBatch) -> bytes:
        """Nothing yet."""
        for held in self._held.values():
            held.add(batch.column(held.feature.name))
        return b""

    def close(self) -> bytes:
        """Nothing yet: joined, the arrays would be in memory twice."""
        return b""

    def rest(self) -> Iterator[Bytes]:
        """The whole file, piece by piece."""
        archive = Zip(deflated=self._deflated)
        for name, held in self._held.items():
            stored = np.dtype(held.feature.dtype).newbyteorder("<")
            records = sum(map(len, held.parts))
            values = [_bytes(part.astype(stored, copy=False)) for part in held.parts]
            yield from archive.add(name, [header(stored, (records, *held.feature.shape)), *values])
        yield archive.end()


def member_name(feature: FeatureSpec) -> str:
    """Name of a feature's array in the archive. Raises BadSpec for one that would lie elsewhere when the archive is unpacked."""
    if any(part in ("", ".", "..") for part in feature.name.split("/")) or "\\" in feature.name or "\0" in feature.name:
        raise BadSpec(f"npz can't name an array {feature.name!r}: it is no path below a folder. Give the feature another name.")
    return f"{'labels' if feature.label else 'features'}/{feature.name}.npy"


def header(dtype: np.dtype[Any], shape: tuple[int, ...]) -> bytes:
    """The header before the values of an array."""
    text = f"{{'descr': {dtype.str!r}, 'fortran_order': False, 'shape': {shape!r}, }}"
    spaces = " " * (-(len(MAGIC) + 2 + len(text) + 1) % _ALIGNED)
    filled = f"{text}{spaces}\n".encode("latin-1")
    return MAGIC + len(filled).to_bytes(2, "little") + filled


def _bytes(values: Values) -> memoryview:
    # A view of an array without values can't be cast.
    return memoryview(np.ascontiguousarray(values).reshape(-1).view(np.uint8).data) if values.size else memoryview(b"")
