"""Compressed files: files that common programs write, truncated or damaged files, and the memory that large files need."""

import bz2
import lzma
import os
import re
import subprocess
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from shutil import which
from typing import Any

import pytest
from tests.availability import skip_without
from tests.builders.archives import a_tar
from tests.builders.packed import PACKERS
from tests.converter.readers.reader_contract import batches, plan, rows

from dataprep_api.spec import Source
from dataprep_converter.core.errors import BadData, Unreachable
from dataprep_converter.inputs.compressions import BrokenStream, compression_of, decompressed, without_suffix
from dataprep_converter.readers import reader_class

TEXT = b"x,z\n1,a\n2,b\n"
GOLDEN = {
    "bzip2": "425a68393141592653595fb05622000005598000100004300030000050200021a68c210c08ae3960a09f1772453850905fb05622",
    "xz": (
        "fd377a585a000004e6d6b446020021011c00000010cf58cc01000b782c7a0a312c610a322c620a00"
        "c8893e5580cf206b0001240ca618d8d81fb6f37d010000000004595a"
    ),
    "zstd": "28b52ffd0458610000782c7a0a312c610a322c620a0e55a1e6",
    "lz4": "04224d186440a70c000080782c7a0a312c610a322c620a0000000046e6f81d",
}
"""TEXT as compressed by bzip2 1.0.8, `xz -9e` 5.4.1, zstd 1.5.4 and lz4 1.9.4."""


def cut(data: bytes, size: int) -> Iterator[bytes]:
    return (data[start : start + size] for start in range(0, len(data), size))


def unpacked(data: bytes, size: int = 1 << 20) -> bytes:
    compression = compression_of(data[:10])
    assert compression is not None
    return b"".join(decompressed(cut(data, size), compression))


@pytest.mark.parametrize("size", [1, 7, 1000])
@pytest.mark.parametrize(("compression", "golden"), GOLDEN.items(), ids=GOLDEN.keys())
def test_the_bytes_of_the_usual_programs_are_read(compression: str, golden: str, size: int) -> None:
    data = bytes.fromhex(golden)
    assert compression_of(data[:10]) == compression
    assert unpacked(data, size) == TEXT
    assert unpacked(data * 3, size) == TEXT * 3


PROGRAMS = [["zstd", "--long=27", "-19"], ["zstd", "--fast"], ["lz4", "-9", "-BD"], ["lz4", "-B4"], ["xz", "-9"], ["bzip2", "-1"]]


@pytest.mark.slow
@pytest.mark.parametrize(
    "program", [pytest.param(each, id=" ".join(each), marks=skip_without(which(each[0]), f"needs {each[0]}")) for each in PROGRAMS]
)
def test_options_of_the_programs_are_read(program: list[str]) -> None:
    content = os.urandom(3 << 20) + bytes(9 << 20)
    assert unpacked(subprocess.run([*program, "-c"], input=content, capture_output=True, check=True).stdout) == content


@pytest.mark.parametrize("ending", PACKERS)
def test_a_file_that_is_cut_anywhere_is_broken(ending: str) -> None:
    data = PACKERS[ending](os.urandom(300) + TEXT * 50)
    for end in range(10, len(data)):
        with pytest.raises(BrokenStream):
            unpacked(data[:end], 64)


@pytest.mark.parametrize("ending", ["gz", "bz2", "xz", "lz4"])
def test_a_file_that_is_damaged_is_broken(ending: str) -> None:
    data = bytearray(PACKERS[ending](os.urandom(3000)))
    data[len(data) // 2] ^= 0x10
    if ending == "lz4":
        data = bytearray(bytes.fromhex(GOLDEN["lz4"]))
        data[-1] ^= 1  # unlike the program, Arrow's encoder writes no checksum
    with pytest.raises(BrokenStream):
        unpacked(bytes(data))


def test_what_follows_a_stream_is_another_stream_or_zeros() -> None:
    for packer in (bz2.compress, lzma.compress):
        assert unpacked(packer(TEXT) + bytes(1024)) == TEXT
        with pytest.raises(BrokenStream, match=r"^not valid (bzip2|xz): "):
            unpacked(packer(TEXT) + b"no stream at all")


def test_a_stream_that_needs_too_much_memory_is_refused() -> None:
    large = lzma.compress(TEXT, filters=[{"id": lzma.FILTER_LZMA2, "dict_size": 512 << 20}])
    with pytest.raises(BrokenStream, match="^the xz stream needs more than 128 MiB to be decompressed$"):
        unpacked(large)


@pytest.mark.slow
@pytest.mark.parametrize("ending", PACKERS)
def test_pieces_are_small_however_large_the_contents_are(ending: str) -> None:
    data = PACKERS[ending](bytes(64 << 20))
    compression = compression_of(data[:10])
    assert compression is not None
    tracemalloc.start()
    try:
        sizes = [len(piece) for piece in decompressed(cut(data, 1 << 20), compression)]
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert sum(sizes) == 64 << 20
    assert max(sizes) <= 1 << 20
    assert peak < 16 << 20  # xz's dictionary takes 8 MiB


@pytest.mark.parametrize("head", [b"BZh9 is the name of a book", b"", b"(\xb5", b"\x04\x22\x4d"])
def test_text_is_not_taken_for_a_compressed_file(head: bytes) -> None:
    assert compression_of(head[:10]) is None


def test_an_error_of_the_store_stays_what_it_is() -> None:
    def failing() -> Iterator[bytes]:
        yield bytes.fromhex(GOLDEN["zstd"])[:12]
        raise Unreachable("gone", uri="s3://a/b")

    with pytest.raises(Unreachable, match="^gone$"):
        list(decompressed(failing(), "zstd"))


def test_the_ending_of_a_compression_is_left_out() -> None:
    assert [without_suffix(name) for name in ("a.csv.gz", "a.tsv.BZ2", "a.xz", "b.gz.txt")] == ["a.csv", "a.tsv", "a", "b.gz.txt"]


SOURCES: dict[str, tuple[str, dict[str, Any]]] = {
    "csv": ("x,z\n" + "1,a\n" * 99, {"header": True}),
    "jsonl": ('{"x": 1}\n' * 99, {}),
    "text": ("a line\n" * 99, {}),
    "libsvm": ("1 1:2 3:4\n" * 99, {}),
    "csvSequences": ("1,2\n" * 99, {}),
}


@pytest.mark.parametrize("ending", ["bz2", "xz", "zst", "lz4"])
@pytest.mark.parametrize("source", SOURCES)
def test_every_source_of_text_reads_every_compression(source: str, ending: str, tmp_path: Path) -> None:
    content, options = SOURCES[source]
    (tmp_path / "plain").mkdir()
    (tmp_path / "packed").mkdir()
    (tmp_path / "plain/a.txt").write_text(content)
    (tmp_path / f"packed/a.txt.{ending}").write_bytes(PACKERS[ending](content.encode()))
    plain, packed = (Source.model_validate({source: {"uris": [str(tmp_path / folder)]} | options}) for folder in ("plain", "packed"))
    expected = rows(batches(reader_class(plain.kind), plain))
    assert expected
    assert rows(batches(reader_class(packed.kind), packed, size=7)) == expected
    assert rows(batches(reader_class(packed.kind), packed)) == expected


@pytest.mark.parametrize("ending", PACKERS)
@pytest.mark.parametrize("source", ["csv", "jsonl", "text", "libsvm"])
def test_a_cut_file_is_named(source: str, ending: str, tmp_path: Path) -> None:
    file = tmp_path / f"a.txt.{ending}"
    file.write_bytes(PACKERS[ending]("".join(f"{n} {n}:{n}\n" for n in range(1, 999)).encode())[:-5])
    spec = Source.model_validate({source: {"uris": [str(file)]}})
    with pytest.raises(
        BadData,
        match=rf"^{re.escape(str(file))}: (the (gzip|bzip2|xz) stream ends early|incomplete or damaged (Zstandard|LZ4) stream: .*)\.$",
    ):
        plan(reader_class(spec.kind), spec)


@pytest.mark.parametrize("name", ["tar.bz2", "tbz2", "tar.xz", "txz", "tar.zst", "tzst", "tar.lz4"])
def test_tar_files_of_every_compression_are_read(name: str, tmp_path: Path) -> None:
    files = {f"data/{number}.bin": os.urandom(30) for number in range(50)}
    ending = next(ending for ending in PACKERS if ending in name.replace("tbz", "bz").replace("txz", "xz").replace("tzst", "zst"))
    (tmp_path / f"a.{name}").write_bytes(PACKERS[ending](a_tar(files)))
    source = Source.model_validate({"wholeFile": {"uris": [f"{tmp_path}/a.{name}!/data"]}})
    found = rows(batches(reader_class(source.kind), source))
    assert {f"data/{row['path'].rpartition('/')[2]}": row["content"] for row in found} == files
    (tmp_path / f"a.{name}").write_bytes(PACKERS[ending](a_tar(files))[:-9])
    with pytest.raises(BadData, match=re.escape(f"{tmp_path}/a.{name}")):
        plan(reader_class(source.kind), source)
