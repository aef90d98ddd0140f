"""Stores which samples aren't duplicates. The tasks of an SQL engine write a file for each range of samples, with one bit for each sample.

The bits are in the order of the samples, and the first of eight samples is the highest bit of its byte.
"""

import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dataprep_converter.core.errors import ConvertError
from dataprep_converter.inputs.access import Access
from dataprep_converter.readers.joins import ranges
from dataprep_converter.sampling.selection import Samples
from dataprep_converter.stores import Store

RANGE_SAMPLES: Final = 1 << 22
"""The number of samples in a range. A task sorts the numbers of these samples. The file of a range has 512 KiB."""

Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class BitmapWriter:
    """Writes ranges to files in a store. Can be pickled."""

    folder: str
    """The URI of the folder."""
    range_samples: int

    def __call__(self, access: Access, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Writes a file for each range with kept samples. The column `n` of the batches contains the numbers of these samples, in ascending
        order. Yields a row of `ranges.FILES` for each file. Each attempt of a task writes separate files.

        An error of the store is yielded as a row. If it were raised, the engine would repeat the task.
        """
        try:
            yield from self._write(access.store(self.folder), batches)
        except ConvertError as exc:
            yield ranges.failed(exc)

    def _write(self, store: Store, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for number, pieces in groupby(self._divided(batches), key=lambda piece: piece[0]):
            kept = np.zeros(self.range_samples, np.bool_)
            for _, places in pieces:
                kept[places] = True
            uri = f"{self.folder}/kept-{number:06d}-{uuid.uuid4().hex}.bits"
            store.put(uri, np.packbits(kept).tobytes(), replace=False)
            yield ranges.written(number, int(np.count_nonzero(kept)), uri)

    def _divided(self, batches: Iterator[pa.RecordBatch]) -> Iterator[tuple[int, Samples]]:
        """For each batch and each range in the batch, yields (number of the range, positions of the samples within the range)."""
        for batch in batches:
            numbers, places = np.divmod(batch.column("n").to_numpy(), self.range_samples)
            for number in np.unique(numbers).tolist():
                yield number, places[numbers == number]


def left_out(paths: Mapping[int, str], access: Access, *, samples: int, range_samples: int) -> Iterator[Samples]:
    """Yields the numbers of the samples that aren't kept, range by range. `paths` maps a range to its file. If a range has no file, none of
    its samples are kept."""
    for number in range(-(-samples // range_samples)):
        first = number * range_samples
        length = min(range_samples, samples - first)
        yield first + np.flatnonzero(~_kept(paths.get(number), access, length))


def _kept(path: str | None, access: Access, length: int) -> Mask:
    if path is None:
        return np.zeros(length, np.bool_)
    content = np.frombuffer(access.store(path).get(path), np.uint8)
    if len(content) * 8 < length:
        raise ConvertError(f"{path} has {len(content):,} bytes, expected one bit for each of {length:,} records. Run the job again.")
    return np.unpackbits(content, count=length).astype(np.bool_)
