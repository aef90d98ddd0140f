"""`spec.deduplicate`: compares 128-bit digests of some columns to find samples that repeat an earlier sample. Memory is bounded."""

import hashlib
from collections.abc import Iterator, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dataprep_converter.core.errors import BadSpec
from dataprep_converter.core.tensors import NUMPY_NAMES, Array, is_tensor, pc, value_type
from dataprep_converter.records.columns import numbers
from dataprep_converter.records.exact_decimals import digits_name, plain_texts
from dataprep_converter.sampling.selection import Samples, mix

DIGEST_BYTES: Final = 16
_AT_ONCE: Final = 1 << 22
"""Number of digests sorted at a time. Sorting 4 million digests takes about 200 MB."""
_SCANNED: Final = 1 << 20
"""Number of digests that are looked through at a time."""
_HALF: Final = np.uint64(32)

Digests = npt.NDArray[np.uint64]
"""An array of shape (samples, 2): two 64-bit numbers for each sample."""


def digests(records: pa.RecordBatch, columns: Sequence[str]) -> Digests:
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


def digests_of_all(samples: Samples, records: pa.RecordBatch, good: Samples, columns: Sequence[str]) -> Digests:
    """Returns the digest of each of the samples, which are in ascending order. `records` are the records of the `good` ones. All others
    can't be read, and are no duplicates."""
    found = unique_digests(samples)
    found[np.searchsorted(samples, good)] = digests(records, columns)
    return found


def unique_digests(samples: Samples) -> Digests:
    """Returns a digest for each sample that no other sample has."""
    # `mix` is a bijection that distributes the numbers evenly, as `find_repeated` needs it.
    return np.stack([mix(samples.astype(np.uint64)), np.zeros(len(samples), np.uint64)], axis=1)


def find_repeated(sample_digests: Digests) -> Iterator[Samples]:
    """Yields arrays with the numbers of the samples that have the same digest as an earlier sample. `sample_digests` are the digests of all
    samples in order. Memory use doesn't grow with the number of samples."""
    parts = max(1, -(-len(sample_digests) // _AT_ONCE))
    for part in range(parts):
        positions = _samples_of_part(sample_digests, part, parts)
        part_digests = sample_digests[positions]
        order = np.lexsort((positions, part_digests[:, 1], part_digests[:, 0]))
        ordered = part_digests[order]
        repeated = np.flatnonzero((ordered[1:] == ordered[:-1]).all(axis=1)) + 1
        if len(repeated):
            yield np.sort(positions[order[repeated]])


def _samples_of_part(sample_digests: Digests, part: int, parts: int) -> Samples:
    """Returns the numbers of the samples whose digests are in a part.

    Digests are evenly distributed, so all parts have about the same size. Equal digests are in the same part.
    """
    found = [np.zeros(0, np.int64)]
    for start in range(0, len(sample_digests), _SCANNED):
        # The highest bits of a digest, as a fraction of all numbers with as many bits, choose the part.
        part_of = (sample_digests[start : start + _SCANNED, 0] >> _HALF) * np.uint64(parts) >> _HALF
        found.append(start + np.flatnonzero(part_of == part))
    return np.concatenate(found)
