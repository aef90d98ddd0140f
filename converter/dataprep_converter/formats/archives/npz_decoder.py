"""Decoder of `npz`: a record is one row of each array.

It holds the complete file in memory. Headers aren't evaluated as Python code.
"""

import math
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from dataprep_api.dataset.report import Manifest
from dataprep_converter.core.errors import BrokenRecord
from dataprep_converter.formats.archives.held import Values
from dataprep_converter.formats.archives.npz_encoder import MAGIC, header
from dataprep_converter.formats.archives.zip_decoder import Found, members


class NpzDecoder:
    """Decodes each record to one row of each feature's array."""

    def __init__(self, manifest: Manifest) -> None:
        self._features = {
            f"{'labels' if each['label'] else 'features'}/{each['name']}.npy": (
                each["name"],
                np.dtype(each["dtype"]).newbyteorder("<"),
                tuple(each["shape"]),
            )
            for each in manifest.features
        }

    def read(self, pieces: Iterable[bytes]) -> Iterator[tuple[int, dict[str, Values]]]:
        """Yield the rows. All have the offset of the first array, because a record spans all arrays."""
        arrays = self.arrays(pieces)
        for number in range(len(next(iter(arrays.values())))):
            yield 0, {name: array[number] for name, array in arrays.items()}

    def arrays(self, pieces: Iterable[bytes]) -> dict[str, Values]:
        """Return a file's arrays by feature. All have the same length. Raises BrokenRecord."""
        found, fault = members(pieces)
        if fault is not None:
            raise fault
        if [each.name for each in found] != list(self._features):
            named = ", ".join(each.name for each in found) or "no array"
            raise BrokenRecord(f"expected the arrays {', '.join(self._features)}, got {named}", offset=0)
        arrays = {self._features[each.name][0]: self._array(each) for each in found}
        records = {len(array) for array in arrays.values()}
        if len(records) > 1:
            raise BrokenRecord(f"arrays of {' and '.join(map(str, sorted(records)))} records in one file", offset=0)
        return arrays

    def parse(self, record: dict[str, Values]) -> dict[str, Any]:
        """Return the values as flat lists."""
        return {name: np.ravel(values).tolist() for name, values in record.items()}

    def _array(self, found: Found) -> Values:
        """Return the array in a member. Its header must fit the number of records that follows from the member's size."""
        _, dtype, shape = self._features[found.name]
        begin = len(MAGIC) + 2 + int.from_bytes(found.content[len(MAGIC) : len(MAGIC) + 2], "little")
        records = max(0, len(found.content) - begin) // (math.prod(shape) * dtype.itemsize)
        head = header(dtype, (records, *shape))
        if not found.content.startswith(head) or len(found.content) != len(head) + records * math.prod(shape) * dtype.itemsize:
            raise BrokenRecord(f"{found.name} isn't an array of {dtype.name} of shape {['records', *shape]}", offset=found.offset)
        return np.frombuffer(found.content, dtype, offset=len(head)).reshape(records, *shape)
