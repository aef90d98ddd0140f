"""`spec.deduplicate`: compares 128-bit digests of some columns to find samples that repeat an earlier sample. Memory is bounded."""

import hashlib
from collections.abc import Iterator
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dataprep_converter.core.errors import BadSpec
from dataprep_converter.core.tensors import NUMPY_NAMES, Array, is_tensor, pc, value_type
from dataprep_converter.records.columns import numbers
from dataprep_converter.records.exact_decimals import digits_name, plain_texts

DIGEST_BYTES: Final = 16
_AT_ONCE: Final = 1 << 22
"""Number of digests sorted at a time. Sorting 4 million digests takes about 200 MB."""

Digests = npt.NDArray[np.uint64]
"""An array of shape (samples, 2): two 64-bit numbers for each sample."""


def digests(records: pa.RecordBatch, columns: list[str]) -> Digests:
    """Returns the BLAKE2b digest of each record's values in these columns. A missing value equals only another missing value.

    All digits of a decimal are compared if the records have a column with the decimal's lost digits (`records/exact_decimals.py`).
    """
    rows = records.num_rows
    hashers = [hashlib.blake2b(digest_size=DIGEST_BYTES) for _ in range(rows)]
    for name in columns:
        column = records.column(name)
        valid: Any = column.is_valid().to_pylist()
        for hasher, content, is_there in zip(hashers, _contents(records, name), valid, strict=True):
            # The length distinguishes ("ab", "c") from ("a", "bc").
            hasher.update(len(content).to_bytes(8, "little") if is_there else b"\xff" * 8)
            hasher.update(content)
    return np.frombuffer(b"".join(hasher.digest() for hasher in hashers), np.uint64).reshape(rows, 2)


def _contents(records: pa.RecordBatch, name: str) -> list[bytes]:
    """Returns the bytes of each value. A missing value has no bytes."""
    column: Array = records.column(name)
    if isinstance(column.type, pa.DictionaryType):
        column = column.cast(column.type.value_type)
    kind = column.type
    if is_tensor(kind) and value_type(kind) in NUMPY_NAMES:
        values, missing = numbers(column)
        tensors = [row.tobytes() for row in values]
        for row in missing.tolist():
            tensors[row] = b""
        return tensors
    types = pa.types
    if types.is_string(kind) or types.is_large_string(kind) or types.is_binary(kind) or types.is_large_binary(kind):
        texts: Any = pc.fill_null(column.cast(pa.large_binary()), b"").to_pylist()
    elif types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind):
        written = column.cast(pa.string())
        if digits_name(name) in records.schema.names:
            written = pc.coalesce(pa.array(plain_texts(records.column(digits_name(name)).to_pylist()), pa.string()), written)
        texts = pc.fill_null(written.cast(pa.large_binary()), b"").to_pylist()
    else:
        raise BadSpec(f"deduplicate: the column {name!r} is {kind}; use columns of text, bytes, numbers or tensors.")
    contents: list[bytes] = texts
    return contents


def find_repeated(sample_digests: Digests, samples: npt.NDArray[np.int64]) -> Iterator[npt.NDArray[np.int64]]:
    """Yields arrays with the numbers of the samples that have the same digest as an earlier sample.

    `samples` contains each digest's sample number, in ascending order.
    """
    parts = max(1, -(-len(sample_digests) // _AT_ONCE))
    # Digests are evenly distributed, so all parts have about the same size. Equal digests are in the same part.
    step = np.uint64(2**64 // parts) if parts > 1 else np.uint64(0)
    for part in range(parts):
        positions = (
            np.flatnonzero(sample_digests[:, 0] // step == part)
            if parts > 1 and part < parts - 1
            else _positions_of_last_part(sample_digests, parts, step)
        )
        part_digests = sample_digests[positions]
        order = np.lexsort((positions, part_digests[:, 1], part_digests[:, 0]))
        ordered = part_digests[order]
        repeated = np.flatnonzero((ordered[1:] == ordered[:-1]).all(axis=1)) + 1
        if len(repeated):
            yield np.sort(samples[positions[order[repeated]]])


def _positions_of_last_part(sample_digests: Digests, parts: int, step: np.uint64) -> npt.NDArray[np.int64]:
    """Returns the positions of the digests in the last part. Because of rounding, the last part is a little larger."""
    return np.flatnonzero(sample_digests[:, 0] // step >= parts - 1) if parts > 1 else np.arange(len(sample_digests))
