"""Writes that are staged together, on the real file system."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from dataprep_api.spec import HdfsOptions
from dataprep_converter.core.errors import StoreFull
from dataprep_converter.dataset import fencing
from dataprep_converter.stores import StoreSettings
from dataprep_converter.stores.files import FileStore, FileUpload


class FullFor(FileStore):
    """A disk that is full for one file, and slow for all other files."""

    def __init__(self, name: str) -> None:
        super().__init__(StoreSettings(uri_prefix="/"))
        self._name = name

    def create(self, uri: str, *, size_hint: int | None = None, hdfs: HdfsOptions | None = None) -> FileUpload:
        if uri.endswith(self._name):
            raise StoreFull(f"{uri}: no space left", uri=uri)
        time.sleep(0.2)
        return super().create(uri, size_hint=size_hint, hdfs=hdfs)


@pytest.mark.slow
def test_a_file_that_cannot_be_staged_leaves_nothing_of_the_others(tmp_path: Path) -> None:
    files = [fencing.SmallFile(f"{tmp_path}/{name}", b"x") for name in ("full", "a", "b")]

    with pytest.raises(StoreFull, match="full: no space left"):
        fencing.write(FullFor("full"), files, check=lambda: None)

    assert list(tmp_path.rglob("*")) == []


def test_files_are_made_while_the_files_before_them_are_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fencing, "_STAGED_BYTES", 4)
    there: list[int] = []

    def made() -> Iterator[fencing.SmallFile]:
        for name, content in (("a", b"12"), ("b", b"34"), ("c", b"567890"), ("d", b"")):
            there.append(len(list(tmp_path.iterdir())))
            yield fencing.SmallFile(f"{tmp_path}/{name}", content)

    fencing.write(FileStore(StoreSettings(uri_prefix="/")), made(), check=lambda: None)

    assert there == [0, 0, 2, 3]
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {"a": b"12", "b": b"34", "c": b"567890", "d": b""}
