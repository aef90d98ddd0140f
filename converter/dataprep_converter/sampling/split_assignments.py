"""Split codes give the split of each sample, for plans whose splits can't be computed.

`splits.parquet` stores one byte per sample, zstd-compressed. A row group is a block of HASH_BLOCK samples, so that a worker decompresses
only the blocks that its shards need.
"""

import io
from collections.abc import Iterable
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

_COLUMN: Final = "code"
_SCHEMA: pa.Schema = pa.schema([(_COLUMN, pa.uint8())])
_parquet: Any = pq  # the type stubs lack the methods of a ParquetFile

Array = npt.NDArray[np.uint8]


class SplitAssignments:
    """The codes of all samples. A sample in no split has code 0; any other sample's code is the number of its split, plus one."""

    def __init__(self, content: bytes) -> None:
        self._file = _parquet.ParquetFile(pa.BufferReader(content))

    @property
    def blocks(self) -> int:
        """Number of blocks."""
        count: int = self._file.num_row_groups
        return count

    def block(self, number: int) -> Array:
        """Returns the codes of one block of samples."""
        # Don't use Arrow's threads: a worker crashes if it exits while one of these threads is still freeing the bytes.
        codes: Array = self._file.read_row_group(number, use_threads=False).column(_COLUMN).to_numpy()
        return codes


def to_parquet(blocks: Iterable[Array]) -> bytes:
    """Returns the contents of `splits.parquet` for these blocks. Each block has HASH_BLOCK codes; the last block can be shorter."""
    buffer = io.BytesIO()
    with _parquet.ParquetWriter(buffer, _SCHEMA, compression="zstd", write_statistics=False) as writer:
        for block in blocks:
            writer.write_table(pa.table([pa.array(block)], schema=_SCHEMA), row_group_size=max(1, len(block)))
    return buffer.getvalue()
