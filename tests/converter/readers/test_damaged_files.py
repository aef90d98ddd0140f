"""Damages files for the binary and sparse sources by flipping bytes and truncating. The tests check that reading either returns records or
fails with an error that names the file."""

import gzip
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.builders.archives import a_tar, a_zip
from tests.builders.sequence_files import block, head, numbered, records, snappy
from tests.builders.tfrecords import example
from tests.converter.readers.reader_contract import batches

from dataprep_api.spec import Source
from dataprep_converter.core.errors import ConvertError
from dataprep_converter.core.framing import frame
from dataprep_converter.readers import reader_class


def tfrecord(_: Path) -> bytes:
    return b"".join(frame(example(n=n, x=[n / 2, 1.0], t=b"t" * n, r=[*range(n)])) for n in range(20))


def unframed(data: bytes) -> bytes:
    """Frames the damaged payloads with correct CRCs. Otherwise the damaged bytes wouldn't reach the parser."""
    payload = example(n=300, x=[0.5, 1.0], t=b"text", r=[1, 2, 3])
    size = len(payload)
    return b"".join(frame(data[start : start + size]) for start in range(0, len(data), size))


def payloads(_: Path) -> bytes:
    return example(n=300, x=[0.5, 1.0], t=b"text", r=[1, 2, 3]) * 20


def npy(folder: Path) -> bytes:
    np.save(folder / "made.npy", np.arange(60, dtype="<i4").reshape(20, 3))
    return (folder / "made.npy").read_bytes()


def npz(folder: Path) -> bytes:
    np.savez_compressed(folder / "made.npz", x=np.arange(60).reshape(20, 3), y=np.arange(20))
    return (folder / "made.npz").read_bytes()


def libsvm(_: Path) -> bytes:
    return b"".join(b"%d %d:0.5 9:%d # x\n" % (n, n % 5 + 1, n) for n in range(20))


MEMBERS = {f"{n}.bin": struct.pack("<20i", *range(n, n + 20)) for n in range(5)}
FEATURES = [
    {"name": "n", "type": "Int64"},
    {"name": "x", "type": "Float32", "shape": [2]},
    {"name": "t", "type": "Bytes"},
    {"name": "r", "type": "Int64", "ragged": True},
]


def same(data: bytes) -> bytes:
    return data


def fault(source: Source) -> ConvertError | None:
    """The ConvertError that planning or reading raises, if any. Any other exception fails the test."""
    try:
        batches(reader_class(source.kind), source, size=7)
    except ConvertError as exc:
        return exc
    return None


CASES: dict[str, tuple[str, Callable[[Path], bytes], Callable[[bytes], bytes], dict[str, Any], str]] = {
    "tfrecord": ("tfrecord", tfrecord, same, {"features": FEATURES}, ""),
    "tfrecord payloads": ("tfrecord", payloads, unframed, {"features": FEATURES}, ""),
    "tfrecord, inferred": ("tfrecord", payloads, unframed, {}, ""),
    "tfrecord, gzip": ("tfrecord", lambda folder: gzip.compress(tfrecord(folder), mtime=0), same, {"features": FEATURES}, ""),
    "sequence file": ("sequenceFile", lambda _: head("Text", "LongWritable") + records(numbered(30)), same, {}, ""),
    "sequence file of blocks": (
        "sequenceFile",
        lambda _: head("Text", "LongWritable", compression="Block", codec="SnappyCodec") + block(numbered(30), snappy) * 2,
        same,
        {},
        "",
    ),
    "npy": ("numpy", npy, same, {}, ""),
    "npz": ("numpy", npz, same, {}, ""),
    "libsvm": ("libsvm", libsvm, same, {"numFeatures": 9}, ""),
    "zip": ("fixedLength", lambda _: a_zip(MEMBERS), same, {"recordBytes": 4}, "!/"),
    "tar": ("fixedLength", lambda _: a_tar(MEMBERS), same, {"recordBytes": 4}, "!/"),
    "tar.gz": ("fixedLength", lambda _: gzip.compress(a_tar(MEMBERS), mtime=0), same, {"recordBytes": 4}, "!/"),
}


@pytest.mark.slow
@pytest.mark.parametrize("rounds", [50, pytest.param(150, marks=pytest.mark.nightly)])
@pytest.mark.parametrize(("kind", "make", "last", "options", "within"), CASES.values(), ids=CASES.keys())
def test_damage_never_ends_in_anything_but_an_error_of_ours(
    tmp_path: Path,
    kind: str,
    make: Callable[[Path], bytes],
    last: Callable[[bytes], bytes],
    options: dict[str, Any],
    within: str,
    rounds: int,
) -> None:
    (tmp_path / "in").mkdir()
    whole = make(tmp_path)
    file = tmp_path / "in" / "a.zip"
    source = Source.model_validate({kind: {"uris": [f"{file}{within}"], **options}})
    chance = np.random.default_rng(1)
    ended = 0
    for _ in range(rounds):
        data = bytearray(whole)
        for _ in range(chance.choice([1, 1, 1, 2, 8])):
            data[chance.integers(len(data))] = [0, 0xFF, 0x80, int(chance.integers(256))][chance.integers(4)]
        if chance.random() < 0.2:
            del data[chance.integers(len(data)) :]
        file.write_bytes(last(bytes(data)))
        error = fault(source)
        assert error is None or "a.zip" in str(error) or "feature" in str(error)
        ended += error is not None
    assert ended or kind == "libsvm" or last is unframed
