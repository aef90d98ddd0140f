"""`npz`, back into records: a row of each array. A file is held whole; no header is evaluated as Python."""

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
    """A record is the row of each feature's array."""

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
        """The offset is that of the first array, because a record spans all of them."""
        arrays = self.arrays(pieces)
        for number in range(len(next(iter(arrays.values())))):
            yield 0, {name: array[number] for name, array in arrays.items()}

    def arrays(self, pieces: Iterable[bytes]) -> dict[str, Values]:
        """The arrays of a file by feature, all as long as each other. Raises BrokenRecord."""
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
        """The values, flat."""
        return {name: np.ravel(values).tolist() for name, values in record.items()}

    def _array(self, found: Found) -> Values:
        """The array, whose header must be the one for as many records as its size says."""
        _, dtype, shape = self._features[found.name]
        begin = len(MAGIC) + 2 + int.from_bytes(found.content[len(MAGIC) : len(MAGIC) + 2], "little")
        records = max(0, len(found.content) - begin) // (math.prod(shape) * dtype.itemsize)
        head = header(dtype, (records, *shape))
        if not found.content.startswith(head) or len(found.content) != len(head) + records * math.prod(shape) * dtype.itemsize:
            raise BrokenRecord(f"{found.name} is no array of {dtype.name} of shape {['records', *shape]}", offset=found.offset)
        return np.frombuffer(found.content, dtype, offset=len(head)).reshape(records, *shape)
