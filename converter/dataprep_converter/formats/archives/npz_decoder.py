"""Decoder for `npz`: a record is one row of each array.

The decoder holds the complete file in memory. Headers aren't evaluated as Python code.
"""

import math
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from dataprep_api.dataset.report import Manifest
from dataprep_converter.core.errors import BrokenRecord
from dataprep_converter.formats.archives.npz_encoder import MAGIC, header
from dataprep_converter.formats.archives.number_buffer import Values
from dataprep_converter.formats.archives.zip_decoder import VerifiedMember, members


class NpzDecoder:
    """Decodes each record to one row of each feature's array."""

    def __init__(self, manifest: Manifest) -> None:
        self._features = {
            f"{'labels' if feature['label'] else 'features'}/{feature['name']}.npy": (
                feature["name"],
                np.dtype(feature["dtype"]).newbyteorder("<"),
                tuple(feature["shape"]),
            )
            for feature in manifest.features
        }

    def read(self, pieces: Iterable[bytes]) -> Iterator[tuple[int, dict[str, Values]]]:
        """Yield the rows. Every record has the offset of the first array, because a record spans all arrays."""
        arrays = self.arrays(pieces)
        for number in range(len(next(iter(arrays.values())))):
            yield 0, {name: array[number] for name, array in arrays.items()}

    def arrays(self, pieces: Iterable[bytes]) -> dict[str, Values]:
        """Return a file's arrays, keyed by feature. All have the same length. Raises BrokenRecord."""
        archive_members, fault = members(pieces)
        if fault is not None:
            raise fault
        if [member.name for member in archive_members] != list(self._features):
            member_names = ", ".join(member.name for member in archive_members) or "no array"
            raise BrokenRecord(f"expected the arrays {', '.join(self._features)}, got {member_names}", offset=0)
        arrays = {self._features[member.name][0]: self._array(member) for member in archive_members}
        records = {len(array) for array in arrays.values()}
        if len(records) > 1:
            raise BrokenRecord(
                f"the arrays of one file have different numbers of records: {' and '.join(map(str, sorted(records)))}", offset=0
            )
        return arrays

    def parse(self, record: dict[str, Values]) -> dict[str, Any]:
        """Return the values as flat lists."""
        return {name: np.ravel(values).tolist() for name, values in record.items()}

    def _array(self, member: VerifiedMember) -> Values:
        """Return a member's array. The number of records in the array's header must match the member's size."""
        _, dtype, shape = self._features[member.name]
        begin = len(MAGIC) + 2 + int.from_bytes(member.content[len(MAGIC) : len(MAGIC) + 2], "little")
        records = max(0, len(member.content) - begin) // (math.prod(shape) * dtype.itemsize)
        head = header(dtype, (records, *shape))
        if not member.content.startswith(head) or len(member.content) != len(head) + records * math.prod(shape) * dtype.itemsize:
            raise BrokenRecord(f"{member.name} isn't an array of {dtype.name} of shape {['records', *shape]}", offset=member.offset)
        return np.frombuffer(member.content, dtype, offset=len(head)).reshape(records, *shape)
