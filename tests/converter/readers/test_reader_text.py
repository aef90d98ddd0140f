"""Tests lines of text, which become records unchanged."""

import gzip
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.builders.packed import PACKERS
from tests.converter.readers.reader_contract import ReaderContract, batches, faults, plan, rows

from dataprep_api.spec import Source
from dataprep_converter.core.errors import BadData
from dataprep_converter.readers import Reader
from dataprep_converter.readers.text import stretches
from dataprep_converter.readers.text.lines import scan
from dataprep_converter.readers.text.text import TextReader


def put(folder: Path, files: dict[str, bytes]) -> None:
    for name, content in files.items():
        (folder / name).write_bytes(content)


def a_source(*uris: Path, **options: Any) -> Source:
    return Source.model_validate({"text": {"uris": [str(uri) for uri in uris], **options}})


def of_bytes(folder: Path, content: bytes, **options: Any) -> Source:
    put(folder, {"a.txt": content})
    return a_source(folder / "a.txt", **options)


def lines(source: Source) -> list[Any]:
    return [row["text"] for row in rows(batches(TextReader, source))]


class TextContract(ReaderContract):
    reader: ClassVar[type[Reader]] = TextReader
    ending: ClassVar[str]

    @pytest.fixture(autouse=True)
    def small_units(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(stretches, "UNIT_BYTES", 256)

    def a_source(self, folder: Path) -> Source:
        for name, first in (("a", 0), ("b", 1_000)):
            text = "".join(f"line {n}, ü\n" for n in range(first, first + 30)).encode()
            put(folder, {f"{name}.txt": PACKERS[self.ending](text) if self.ending else text})
        return a_source(folder)

    def an_empty_source(self, folder: Path) -> Source:
        put(folder, {"a.txt": b"", "b.txt": gzip.compress(b"")})
        return a_source(folder)

    def a_missing_source(self, folder: Path) -> tuple[Source, str]:
        put(folder, {"a.txt": b"x\n"})
        return a_source(folder / "a.txt", folder / "absent.txt"), str(folder / "absent.txt")

    def change(self, folder: Path) -> Path:
        put(folder, {"b.txt": b"x\n"})
        return folder / "b.txt"


class TestPlainFiles(TextContract):
    ending = ""


class TestGzipFiles(TextContract):
    ending = "gz"


class TestBzip2Files(TextContract):
    ending = "bz2"


class TestZstandardFiles(TextContract):
    ending = "zst"


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"", []), (b"\n", [""]), (b"a", ["a"]), (b"a\n", ["a"]), (b"a\n\n", ["a", ""]), (b"a\r\nb\r\n", ["a", "b"]), (b"a\r\nb\nc", ["a", "b", "c"]),
        (b"\r\n", [""]), (b"a\rb\n", ["a\rb"]), (b"a\r\r\n", ["a\r"]), (b"a\r", ["a\r"]), (b" a \n\t\n", [" a ", "\t"]), ("é\n日本\n".encode(), ["é", "日本"]),
        (b"\xef\xbb\xbfa\n\xef\xbb\xbfb\n", ["a", "\ufeffb"]), (b"a\0b\n", ["a\0b"]), (b"\xef\xbb", []),
    ],
)  # fmt: skip
def test_a_line_is_what_stands_before_its_end(tmp_path: Path, content: bytes, expected: list[str]) -> None:
    assert lines(of_bytes(tmp_path, content)) == expected


def test_bytes_are_kept_as_they_are(tmp_path: Path) -> None:
    assert lines(of_bytes(tmp_path, b"\xef\xbb\xbfa\r\n\xff\0\n", type="Bytes")) == [b"\xef\xbb\xbfa", b"\xff\0"]


def test_blank_lines_are_left_out_on_request(tmp_path: Path) -> None:
    source = of_bytes(tmp_path, b"\n \t\r\n a\n\nb\n  \nc \n \n", skipBlank=True)
    assert lines(source) == [" a", "b", "c "]
    units, _ = plan(TextReader, source)
    assert units.samples == 3


@pytest.mark.parametrize("zipped", [False, True], ids=["plain", "gzip"])
@pytest.mark.parametrize("skip_blank", [False, True])
def test_a_line_that_is_not_utf8_is_bad_with_its_number(tmp_path: Path, zipped: bool, skip_blank: bool) -> None:
    content = b"a\n\nabc\xff\xfed\n\xc3\nz\n"
    found = batches(TextReader, of_bytes(tmp_path, gzip.compress(content) if zipped else content, skipBlank=skip_blank))
    advice = "; source.text.type: Bytes takes any bytes"
    first = 1 if skip_blank else 2
    assert faults(found) == {
        first: f"line 3: not UTF-8 (byte 0xff after 3 others){advice}",
        first + 1: f"line 4: not UTF-8 (byte 0xc3 after 0 others){advice}",
    }
    assert [row["text"] for row in rows(found)] == (["a", "z"] if skip_blank else ["a", "", "z"])


def test_a_line_beyond_all_bounds_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stretches, "UNIT_BYTES", 64)
    monkeypatch.setattr(stretches, "LONGEST_RECORD", 512)
    with pytest.raises(BadData, match=r"a\.txt, line 3: a line of more than .* MiB; is the file not text?"):
        plan(TextReader, of_bytes(tmp_path, b"a\nb\n" + b"x" * 5000))


def test_a_broken_gzip_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(BadData, match=r"a\.txt: the gzip stream ends early"):
        plan(TextReader, of_bytes(tmp_path, gzip.compress(b"some text\n" * 99)[:-4]))


@pytest.mark.slow
@given(st.lists(st.sampled_from([b"a", b"\n", b"\r\n", b" ", b"\t\n", "ü".encode(), b"\r"]), max_size=30), st.integers(1, 9), st.booleans())
def test_lines_are_those_of_python_whatever_the_size_of_a_unit(
    tmp_path_factory: pytest.TempPathFactory, parts: list[bytes], size: int, skip_blank: bool
) -> None:
    content = b"".join(parts)
    expected = [line.removesuffix(b"\r") for line in content.split(b"\n")[:-1]] + [last for last in content.split(b"\n")[-1:] if last]
    if skip_blank:
        expected = [line for line in expected if line.strip(b" \t\r")]
    source = of_bytes(tmp_path_factory.mktemp("text"), content, type="Bytes", skipBlank=skip_blank)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stretches, "UNIT_BYTES", size)
        assert lines(source) == expected


def test_lines_are_counted_before_those_left_out() -> None:
    found = scan(b"\n\na\n\nb\n", False, skip_blank=True)
    assert [found.lines_before(int(start)) for start in found.starts] == [2, 4]
    np.testing.assert_array_equal(found.ends, [4, 7])
