"""`spec.deduplicate`: compares 128-bit digests of some columns to find samples that repeat an earlier sample. Memory is bounded."""

import hashlib
from collections.abc import Iterator, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dataprep_converter.core.arrow_types import is_text_or_bytes
from dataprep_converter.core.errors import BadSpec
from dataprep_converter.core.tensors import NUMPY_NAMES, Array, is_tensor, pc, value_type
from dataprep_converter.records.columns import numbers
from dataprep_converter.records.exact_decimals import digits_name, plain_texts
from dataprep_converter.runtime import limits
from dataprep_converter.sampling.selection import Samples, mix

DIGEST_BYTES: Final = 16
_FEWEST: Final = 1 << 21
"""Number of digests sorted at a time if there is little memory."""
_SORT_BYTES: Final = 64
"""Bytes of memory for each digest that is sorted."""
_SHARE: Final = 8
"""The digests that are sorted at a time use 1/_SHARE of the memory, or twice as much if very many digests are equal."""
_SCANNED: Final = 1 << 20
"""Number of digests that are searched at a time."""
_HALF: Final = np.uint64(32)

Digests = npt.NDArray[np.uint64]
"""An array of shape (samples, 2): two 64-bit numbers for each sample."""


def digests(records: pa.RecordBatch, columns: Sequence[str]) -> Digests:
    """Returns the BLAKE2b digest of each record's values in these columns. A missing value equals only another missing value.

    If the records also contain the lost digits of a column's decimals (`records/exact_decimals.py`), all digits are compared.
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
    if is_text_or_bytes(kind):
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
    """Returns a digest for each sample. `samples` are in ascending order, and `records` are the records of the samples in `good`. All other
    samples can't be read, and don't count as duplicates."""
    found = unique_digests(samples)
    found[np.searchsorted(samples, good)] = digests(records, columns)
    return found


def unique_digests(samples: Samples) -> Digests:
    """Returns a different digest for each sample."""
    # `find_repeated` needs evenly distributed digests. `mix` is a bijection that distributes the numbers evenly.
    return np.stack([mix(samples.astype(np.uint64)), np.zeros(len(samples), np.uint64)], axis=1)


def find_repeated(sample_digests: Digests) -> Iterator[Samples]:
    """Yields arrays with the numbers of the samples that have the same digest as an earlier sample. `sample_digests` are the digests of all
    samples in order. Memory use depends neither on the number of samples nor on how many of them are equal."""
    at_once = _at_once()
    # Parts differ a little in size. So, on average, a part has at most 7/8 of the digests that can be sorted at a time.
    parts = max(1, -(-8 * len(sample_digests) // (7 * at_once)))
    for part in range(parts):
        known: Digests = np.zeros((0, 2), np.uint64)
        for samples in _samples_of_part(sample_digests, part, parts, at_once=at_once):
            known, repeated = _compared(known, sample_digests, samples)
            if len(repeated):
                yield repeated


def _at_once() -> int:
    """Returns the number of digests to sort at a time."""
    return max(_FEWEST, limits.memory_bytes() // _SHARE // _SORT_BYTES)


def _samples_of_part(sample_digests: Digests, part: int, parts: int, *, at_once: int) -> Iterator[Samples]:
    """Yields the numbers of the samples whose digests belong to a part, in ascending order, in arrays of at most `at_once` numbers.

    Digests are evenly distributed, so all parts have about the same number of different digests. Equal digests belong to the same part.
    """
    pieces: list[Samples] = [np.zeros(0, np.int64)]
    count = 0
    size = min(_SCANNED, at_once)
    for start in range(0, len(sample_digests), size):
        # The highest 32 bits of a digest, multiplied by `parts` and divided by 2^32, are the number of its part.
        part_of = (sample_digests[start : start + size, 0] >> _HALF) * np.uint64(parts) >> _HALF
        pieces.append(start + np.flatnonzero(part_of == part))
        count += len(pieces[-1])
        if count >= at_once:
            samples = np.concatenate(pieces)
            pieces, count = [samples[at_once:]], count - at_once
            yield samples[:at_once]
    if count:
        samples = np.concatenate(pieces)
        pieces.clear()
        yield samples


def _compared(known: Digests, sample_digests: Digests, samples: Samples) -> tuple[Digests, Samples]:
    """Returns `known` with the new digests of these samples added, and the samples whose digest isn't new.

    A digest isn't new if it is in `known`, or if an earlier sample has the same digest.
    """
    together = np.concatenate([known, sample_digests[samples]])
    order = np.lexsort((together[:, 1], together[:, 0]))  # equal digests keep their order
    ordered = together[order]
    del together  # to free memory: `together` is as large as `ordered`
    is_repeated = np.zeros(len(order), np.bool_)
    is_repeated[1:] = (ordered[1:] == ordered[:-1]).all(axis=1)
    return ordered[~is_repeated], samples[np.sort(order[is_repeated]) - len(known)]
