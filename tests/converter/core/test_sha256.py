"""The digests of many pieces equal hashlib's digests. Many pieces are written in one call, and a failed write is reported."""

import ctypes
import errno
import hashlib
import os
import signal
import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.availability import skip_without

from dataprep_converter.core import native, sha256
from dataprep_converter.core.buffers import Buffer
from dataprep_converter.core.compression import Plain
from dataprep_converter.core.errors import StoreFull
from dataprep_converter.core.sha256 import Sha256
from dataprep_converter.pipeline.shard_sink import ShardSink
from dataprep_converter.stores import StoreSettings
from dataprep_converter.stores.files import FileStore, FileUpload

pytestmark = skip_without(sha256.is_there(), "this machine has no C compiler, or not OpenSSL's library")

FULL = "/dev/full"
"""A device that accepts no bytes, like a full disk."""


@given(st.lists(st.one_of(st.binary(max_size=12), st.binary(min_size=60, max_size=300)), max_size=8))
def test_pieces_are_written_and_digested_in_order(pieces: list[bytes]) -> None:
    digest = Sha256()
    digest.update_all(pieces)
    digest.update(b"more")
    reading, writing = os.pipe()
    try:
        assert native.write_pieces(writing, pieces) == sum(map(len, pieces))
        os.write(writing, b".")
        assert os.read(reading, 1 << 16) == b"".join(pieces) + b"."
    finally:
        os.close(reading)
        os.close(writing)
    assert digest.hexdigest() == digest.hexdigest() == hashlib.sha256(b"".join(pieces) + b"more").hexdigest()


def test_a_write_that_a_signal_ends_early_goes_on() -> None:
    pieces = [bytes([number % 256]) * 1001 for number in range(600)]
    reading, writing = os.pipe()
    written: list[int] = []
    before = signal.signal(signal.SIGALRM, lambda *_: None)
    try:
        writer = threading.Thread(target=lambda: written.append(native.write_pieces(writing, pieces)))
        writer.start()
        # The pipe is full before all bytes are written, so the call waits for a reader. The signals arrive during this wait.
        for _ in range(4):
            threading.Event().wait(0.05)
            signal.pthread_kill(writer.ident or 0, signal.SIGALRM)
        with open(reading, "rb", closefd=False) as file:
            found = file.read(len(b"".join(pieces)))
        writer.join()
    finally:
        signal.signal(signal.SIGALRM, before)
        os.close(reading)
        os.close(writing)
    assert found == b"".join(pieces)
    assert written == [len(found)]


def test_buffers_of_every_kind_are_taken(tmp_path: Path) -> None:
    pieces: list[Buffer] = [b"bytes", bytearray(b"bytearray"), memoryview(b"a view of it")[2:6], b"", memoryview(bytearray())]
    with (tmp_path / "file").open("wb") as file:
        assert native.write_pieces(file.fileno(), pieces) == 14 + 4
    digest = Sha256()
    digest.update_all(pieces)
    assert (tmp_path / "file").read_bytes() == b"".join(pieces)
    assert digest.hexdigest() == hashlib.sha256(b"".join(pieces)).hexdigest()


def test_a_full_disk_is_the_errno_of_its_write() -> None:
    with open(FULL, "wb", buffering=0) as file, pytest.raises(OSError, match="No space left on device") as caught:  # noqa: PTH123 - it is a device
        native.write_pieces(file.fileno(), [b"bytes", b"more"])
    assert caught.value.errno == errno.ENOSPC


def test_a_digest_that_takes_no_more_says_so() -> None:
    refuses = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)(lambda *_: 0)
    with pytest.raises(ValueError, match="the digest can't take more bytes"):
        native.digest_pieces(ctypes.cast(refuses, ctypes.c_void_p).value or 0, 0, [b"some"])


def test_a_shard_on_a_full_disk_says_so(tmp_path: Path) -> None:
    upload = FileStore(StoreSettings(uri_prefix="")).create(f"{tmp_path}/shard")
    assert isinstance(upload, FileUpload)
    full = os.open(FULL, os.O_WRONLY)
    descriptor, upload._descriptor = upload._descriptor, full
    assert descriptor is not None
    os.close(descriptor)
    with ShardSink(upload, Plain()) as sink:
        sink.send([b"some"], [b"some"])
        with pytest.raises(StoreFull, match=f"No space or quota left for {tmp_path}/shard"):
            sink.settle()
    upload.abort()
    assert list(tmp_path.iterdir()) == []


def test_openssl_is_missed_without_a_word(monkeypatch: pytest.MonkeyPatch) -> None:
    sha256._openssl.cache_clear()
    monkeypatch.setattr(sha256, "_LIBRARY", "libnowhere.so.3")
    assert not sha256.is_there()
    sha256._openssl.cache_clear()
