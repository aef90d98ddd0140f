"""`dataprep copy` of files that aren't a data set: it copies and checks any file or folder, and resumes interrupted copies.

A copy gets its final name only when it is complete.
"""

import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.builders.files import everything
from tests.converter.cli.commandline import code_of
from tests.converter.stores.site import serving

from dataprep_converter.core.errors import BadSpec, InputChanged, NotFound, OutputExists, Unreachable
from dataprep_converter.inputs.access import Access
from dataprep_converter.runtime.retry import RetryPolicy
from dataprep_converter.stores.files import FileInput, FileStore, FileUpload
from dataprep_converter.tools import file_copy
from dataprep_converter.tools.file_copy import CopyResult


@pytest.fixture
def raw(tmp_path: Path) -> Path:
    """Files of all kinds in folders, including a hidden file and an empty one."""
    for name, content in {"a.csv": b"1,2\n", "b/c.jpg": b"\xff" * 5000, "b/.hidden": b"x", "b/d e%20f": b"", "_SUCCESS": b""}.items():
        file = tmp_path / "raw" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)
    return tmp_path / "raw"


def copy(uri: Path | str, to: Path | str, *, overwrite: bool = False) -> CopyResult:
    return file_copy.copy(str(uri), str(to), Access(), overwrite=overwrite)


def test_a_folder_is_copied_with_all_that_is_in_it(raw: Path, tmp_path: Path) -> None:
    assert copy(raw, tmp_path / "to") == CopyResult(files=5, size=5005)
    assert everything(tmp_path / "to") == everything(raw)


def test_a_file_is_copied_to_a_name_or_into_a_folder(raw: Path, tmp_path: Path) -> None:
    copy(raw / "a.csv", tmp_path / "to/other.csv")
    copy(raw / "a.csv", f"file://{tmp_path}/to/")
    copy(raw / "a.csv", raw / "beside.csv")
    assert everything(tmp_path / "to") == {"a.csv": b"1,2\n", "other.csv": b"1,2\n"}
    assert (raw / "beside.csv").read_bytes() == b"1,2\n"


def test_a_file_of_an_archive_is_a_file_too(raw: Path, tmp_path: Path) -> None:
    import zipfile

    with zipfile.ZipFile(tmp_path / "raw.zip", "w") as archive:
        archive.write(raw / "a.csv", "in/a.csv")
    copy(f"{tmp_path}/raw.zip!/in", tmp_path / "to")
    assert everything(tmp_path / "to") == {"a.csv": b"1,2\n"}


def test_what_is_there_with_the_same_bytes_is_not_written_again(raw: Path, tmp_path: Path) -> None:
    copy(raw, tmp_path / "to")
    (tmp_path / "to/b/c.jpg").unlink()
    before = (tmp_path / "to/a.csv").stat().st_mtime_ns
    assert copy(raw, tmp_path / "to") == CopyResult(files=1, size=5000, kept=4)
    assert (tmp_path / "to/a.csv").stat().st_mtime_ns == before


@pytest.mark.parametrize("content", [b"1,3\n", b"longer than it was"], ids=["other bytes", "another size"])
def test_a_file_that_holds_something_else_is_replaced_only_when_that_is_asked_for(raw: Path, tmp_path: Path, content: bytes) -> None:
    (tmp_path / "to").mkdir()
    (tmp_path / "to/a.csv").write_bytes(content)
    with pytest.raises(OutputExists) as told:
        copy(raw, tmp_path / "to")
    assert str(told.value) == f"{tmp_path}/to/a.csv differs from the file to be copied; --overwrite replaces it."
    assert (tmp_path / "to/a.csv").read_bytes() == content
    copy(raw, tmp_path / "to", overwrite=True)
    assert everything(tmp_path / "to") == everything(raw)


def test_nothing_has_its_name_before_it_is_whole(raw: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[bool] = []
    before = FileUpload.commit

    def commit(upload: FileUpload, *, replace: bool) -> Any:  # Any: passed on unchanged
        seen.append(Path(upload.uri).exists())
        return before(upload, replace=replace)

    monkeypatch.setattr(FileUpload, "commit", commit)
    copy(raw, tmp_path / "to")
    assert seen == [False] * 5


def test_a_file_that_changes_while_it_is_copied_gets_no_name(raw: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = FileInput.stream

    def stream(opened: FileInput, offset: int = 0, length: int | None = None) -> Iterator[bytes]:
        yield from before(opened, offset, length)
        (raw / "a.csv").write_bytes(b"9,9,9\n")

    monkeypatch.setattr(FileInput, "stream", stream)
    with pytest.raises(
        InputChanged, match=rf"{raw}/a\.csv changed while it was being copied: its pin was .* and is now .*\. Copy it again\."
    ):
        copy(raw / "a.csv", tmp_path / "to/a.csv")
    assert not list((tmp_path / "to").iterdir())


def test_what_reads_back_otherwise_is_removed(raw: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_copy, "_FILE_RETRY_POLICY", RetryPolicy(attempts=1))
    before = FileUpload.write
    monkeypatch.setattr(FileUpload, "write", lambda upload, data: before(upload, bytes(len(data))))
    with pytest.raises(Unreachable, match="differs from what was written to it, so the file was removed"):
        copy(raw / "a.csv", tmp_path / "to.csv")
    assert not (tmp_path / "to.csv").exists()


def test_a_store_that_fails_once_is_asked_again(raw: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_copy, "_FILE_RETRY_POLICY", RetryPolicy(attempts=2, first_delay_seconds=0))
    before, calls = FileStore.create, []

    def create(store: FileStore, uri: str, **more: Any) -> FileUpload:
        calls.append(uri)
        if len(calls) == 1:
            raise Unreachable("The store failed.")
        return before(store, uri, **more)

    monkeypatch.setattr(FileStore, "create", create)
    assert copy(raw / "a.csv", tmp_path / "to.csv") == CopyResult(files=1, size=4)


def test_a_copy_onto_or_into_itself_is_refused(raw: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(raw)
    for to in (raw, raw / "b/new", tmp_path / "link"):
        with pytest.raises(BadSpec):
            copy(raw, to, overwrite=True)
    with pytest.raises(BadSpec, match=r"link/a\.csv is .*raw/a\.csv itself, so there is nothing to copy"):
        copy(raw / "a.csv", tmp_path / "link/a.csv", overwrite=True)
    assert (raw / "a.csv").read_bytes() == b"1,2\n"


def test_what_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match=rf"{tmp_path}/absent doesn't exist: there is no such file, and no file below it"):
        copy(tmp_path / "absent", tmp_path / "to")


def test_a_file_larger_than_what_memory_is_taken_is_copied(tmp_path: Path) -> None:
    (tmp_path / "large").write_bytes(bytes(64 << 20))
    tracemalloc.start()
    copy(tmp_path / "large", tmp_path / "to")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 24 << 20
    assert (tmp_path / "to").stat().st_size == 64 << 20


def test_the_command_copies_files_too(raw: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert code_of("copy", raw, tmp_path / "to") == 0
    told = capsys.readouterr()
    assert (told.out, told.err) == (f"{tmp_path}/to\n", "copied 5 files, 5,005 bytes\n")
    assert code_of("copy", raw, tmp_path / "to") == 0
    assert capsys.readouterr().err == "copied 0 files, 0 bytes, 5 existed already\n"
    assert code_of("copy", raw, tmp_path / "to", "--set", "output.hdfs.replication=2") == 2
    assert "isn't a data set; other files are copied without a job, so there are no fields to set" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("address", "name"),
    [("/raw/a.csv?X-Amz-Signature=0123&token=hidden", "a.csv"), ("/raw/a%20b.csv", "a b.csv"), ("/raw/..%2Fa.csv", "a.csv")],
)
def test_a_file_of_the_web_is_called_as_its_path_says(tmp_path: Path, capsys: pytest.CaptureFixture[str], address: str, name: str) -> None:
    with serving({address: b"abc", address.partition("?")[0]: b"abc"}) as site:
        assert code_of("copy", site.at(address), f"{tmp_path}/to/") == 0
    assert everything(tmp_path / "to") == {name: b"abc"}
    assert "hidden" not in "".join(capsys.readouterr())


@pytest.mark.parametrize("address", ["/raw/?key=1", "/%2E%2E"])
def test_an_address_without_a_file_name_needs_one_for_the_copy(tmp_path: Path, address: str) -> None:
    with serving({address: b"abc", address.partition("?")[0]: b"abc"}) as site:
        with pytest.raises(BadSpec, match=r"doesn't end with a file name\. As the destination, give a file name instead of a folder"):
            copy(site.at(address), f"{tmp_path}/to/")
        copy(site.at(address), tmp_path / "named")
    assert (tmp_path / "named").read_bytes() == b"abc"
