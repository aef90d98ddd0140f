"""Seeded damage to real files: flipped bits, and ranges that are cut, duplicated, zeroed or moved, in a gzip stream or in its content."""

import gzip

import numpy as np

_GZIP = b"\x1f\x8b"
_WORDS = (
    b"\xff" * 4,
    b"\0" * 4,
    b"\x7f\xff\xff\xff",
    b"\xff\xff\xff\x7f",
    b"\x80",
    b"\r",
    b"\n",
    b'"',
    b"\0",
    b"-1",
    b"1e999",
    b"\xed\xa0\x80",
)


def damaged(data: bytes, rng: np.random.Generator) -> bytes:
    """Returns `data` with one to four changes.

    In half of the cases, the content of a gzip stream is changed and compressed again, so the checksum matches the changed content.
    """
    if data.startswith(_GZIP) and rng.random() < 0.5:
        return gzip.compress(_changed(gzip.decompress(data), rng), mtime=0)
    return _changed(data, rng)


def _changed(data: bytes, rng: np.random.Generator) -> bytes:
    out = bytearray(data)
    for _ in range(int(rng.integers(1, 5))):
        at, length = _place(len(out), rng), int(2 ** rng.uniform(0, 9))
        match int(rng.integers(9)):
            case 0 | 1 if out:
                out[min(at, len(out) - 1)] ^= 1 << int(rng.integers(8))
            case 2:
                del out[at:]
            case 3:
                del out[at : at + length]
            case 4:
                out[at:at] = out[at : at + length]
            case 5:
                out[at : at + length] = bytes(len(out[at : at + length]))
            case 6:
                word = _WORDS[int(rng.integers(len(_WORDS)))]
                out[at : at + len(word)] = word
            case 7:
                out[at:at] = rng.bytes(length)
            case _:
                there = _place(len(out), rng)
                out[at:at] = out[there : there + length]
    return bytes(out)


def _place(size: int, rng: np.random.Generator) -> int:
    """Returns a random offset, often near the beginning or the end, where formats keep headers and footers."""
    near = min(int(rng.exponential(16)), size)
    return [int(rng.integers(size + 1)), near, size - near][int(rng.integers(3))]
