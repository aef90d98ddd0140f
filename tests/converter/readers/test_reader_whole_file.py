"""Tests the source `wholeFile`, which keeps the bytes of files unchanged."""

from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from tests.builders.files import put
from tests.converter.readers.reader_contract import ReaderContract, batches, opened, plan, read_all, rows

from dataprep_api.spec import Source
from dataprep_converter.core.errors import InputChanged
from dataprep_converter.readers import Reader
from dataprep_converter.readers.whole_file import WholeFileReader


def a_source(*uris: Path | str, **options: Any) -> Source:
    return Source.model_validate({"wholeFile": {"uris": [str(uri) for uri in uris], **options}})


class TestContract(ReaderContract):
    reader: ClassVar[type[Reader]] = WholeFileReader

    def a_source(self, folder: Path) -> Source:
        put(folder, {f"{n % 3}/{n:05}.dat": bytes([n % 256]) * (n % 40) for n in range(25)})
        return a_source(folder)

    def an_empty_source(self, folder: Path) -> Source:
        put(folder, {"a.txt": b"x"})
        return a_source(folder, extensions=["dat"])

    def a_missing_source(self, folder: Path) -> tuple[Source, str]:
        put(folder, {"a.dat": b"x"})
        return a_source(folder, folder / "absent"), str(folder / "absent")

    def change(self, folder: Path) -> Path:
        put(folder, {"1/00001.dat": b"another"})
        return folder / "1/00001.dat"


def test_a_file_is_a_record_with_its_path_and_size(tmp_path: Path) -> None:
    put(tmp_path, {"b/x.bin": b"\x00\xff", "a.txt": b"", "_skipped": b"?", "c/.hidden/y": b"?"})
    assert rows(batches(WholeFileReader, a_source(tmp_path))) == [
        {"content": b"", "path": "a.txt", "size": 0, "_sample": 0},
        {"content": b"\x00\xff", "path": "b/x.bin", "size": 2, "_sample": 1},
    ]


def test_path_and_size_are_written_only_on_request(tmp_path: Path) -> None:
    put(tmp_path, {"a": b"x"})
    source = a_source(tmp_path)
    schema = opened(WholeFileReader, source, plan(WholeFileReader, source)[1]).schema()
    assert [field.name for field in schema if (field.metadata or {}).get(b"default") == b"no"] == ["path", "size"]


def test_other_extensions_are_counted_as_ignored(tmp_path: Path) -> None:
    put(tmp_path, {"a.WAV": b"1", "b.wav": b"2", "c.txt": b"3", "wav": b"4", "d": b"5"})
    source = a_source(tmp_path, extensions=["wav"])
    _, state = plan(WholeFileReader, source)
    assert state == {"ignored": 3}
    assert [row["path"] for row in rows(batches(WholeFileReader, source))] == ["a.WAV", "b.wav"]


def test_the_path_is_below_its_folder_for_each_uri(tmp_path: Path) -> None:
    put(tmp_path, {"x/1/a": b"", "y/1/a": b""})
    found = rows(batches(WholeFileReader, a_source(tmp_path / "x", tmp_path / "y/*/a")))
    assert [row["path"] for row in found] == ["1/a", "1/a"]


def test_a_failing_file_among_others_is_named(tmp_path: Path) -> None:
    put(tmp_path, {f"{n:03}": bytes(10) for n in range(100)})
    source = a_source(tmp_path)
    units, state = plan(WholeFileReader, source)
    (tmp_path / "050").write_bytes(b"other")
    with pytest.raises(InputChanged, match=r"050 has changed since it was planned"):
        read_all(opened(WholeFileReader, source, state), units, iter([np.arange(40), np.arange(40, 100)]))
