"""Names that no store accepts, and truncated metadata files: the error names them, and doesn't blame a bug in dataprep."""

import os
import socket
from pathlib import Path
from typing import Any

import pytest
from tests.builders.jobs import run_job
from tests.builders.specs import parse_job

from dataprep_api.dataset.plan import shards
from dataprep_api.errors import SpecError
from dataprep_api.exits import Exit
from dataprep_api.resources.job import DataPrepJob
from dataprep_converter.core.errors import BadSpec, ConvertError, NotFound, NotWhole, OutputExists
from dataprep_converter.inputs.access import Access
from dataprep_converter.steps import plan_step
from dataprep_converter.steps.conversion import convert_commit, convert_work
from dataprep_converter.steps.remove import remove
from dataprep_converter.stores import StoreSettings, files
from dataprep_converter.stores.files import FileStore
from dataprep_converter.tools import repair
from dataprep_converter.tools.verification import verify


def a_job(source: str, to: Path | str, *, overwrite: str = "Never", **spec: Any) -> DataPrepJob:
    made_to = {"uri": str(to), "overwrite": overwrite, "shards": {"count": 2}, **spec.pop("output", {})}
    written = {"source": {"text": {"uris": [source]}}, "output": made_to, **spec}
    return parse_job(written, name="lines")


def refusal(job: DataPrepJob) -> ConvertError | None:
    try:
        run_job(job)
    except ConvertError as exc:
        return exc
    return None


@pytest.fixture
def lines(tmp_path: Path) -> Path:
    (tmp_path / "in").mkdir()
    (tmp_path / "in/lines.txt").write_text("one\ntwo\nthree\nfour\n")
    return tmp_path / "in"


@pytest.fixture
def store() -> FileStore:
    return FileStore(StoreSettings(uri_prefix=""))


# --- links ---------------------------------------------------------------------------------------------------------


def test_a_link_to_itself_among_inputs_is_named_and_not_tried_again(lines: Path, tmp_path: Path) -> None:
    (lines / "sub").mkdir()
    (lines / "sub/loop").symlink_to("loop")
    with pytest.raises(NotFound) as told:
        run_job(a_job(str(lines), tmp_path / "out"))
    assert str(told.value) == (
        f"{lines}/sub/loop is a symbolic link that leads back to itself: remove it, or make it point to a file or a folder."
    )


def test_a_hidden_link_to_itself_is_passed_over(lines: Path, tmp_path: Path) -> None:
    (lines / ".loop").symlink_to(".loop")
    assert run_job(a_job(str(lines), tmp_path / "out"))[1].records.out == 4


def test_a_link_to_itself_that_is_the_input_is_named(lines: Path, tmp_path: Path) -> None:
    (lines / "loop").symlink_to("loop")
    for uri in (f"{lines}/loop", f"{lines}/loop/x"):
        with pytest.raises(NotFound, match=rf"{uri} is a symbolic link that leads back to itself"):
            run_job(a_job(uri, tmp_path / "out"))


def test_a_folder_of_nothing_but_pipes_sockets_and_links_to_nowhere_is_empty(lines: Path, tmp_path: Path) -> None:
    folder = lines / "A"
    folder.mkdir()
    os.mkfifo(folder / "pipe")
    (folder / "nowhere").symlink_to("absent")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(os.path.relpath(folder / "socket"))
        assert run_job(a_job(str(lines), tmp_path / "out"))[1].records.out == 4
        with pytest.raises(NotFound, match=rf"{folder} doesn't exist: there is no such file, and no file below it"):
            run_job(a_job(str(folder), tmp_path / "none"))


@pytest.mark.timeout(60)
def test_a_pipe_in_the_place_of_a_file_is_not_waited_for(lines: Path, tmp_path: Path, store: FileStore) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(NotFound, match=r"pipe is not a file\."):
        store.open(str(tmp_path / "pipe"))
    (tmp_path / "out").mkdir()
    os.mkfifo(tmp_path / "out/_SUCCESS")
    assert run_job(a_job(str(lines), tmp_path / "out"))[1].records.out == 4


# --- names ---------------------------------------------------------------------------------------------------------


def test_a_uri_with_nul_is_refused_where_it_is_written() -> None:
    with pytest.raises(SpecError, match=r"a URI can't contain a NUL character, got '/data/a\\x00b'"):
        a_job("/data/a\0b", "/data/out")


def test_a_uri_with_nul_that_is_found_elsewhere_is_refused(store: FileStore) -> None:
    with pytest.raises(BadSpec, match="'s3://b/a\\\\x00' contains a NUL character, which no store accepts"):
        Access().store("s3://b/a\0")
    for call in (store.stat, store.open, store.delete):
        with pytest.raises(BadSpec, match="contains a NUL character, which isn't allowed in paths"):
            call("/data/a\0b")


@pytest.mark.parametrize("where", ["input", "output"])
def test_a_name_of_300_characters_is_refused(lines: Path, tmp_path: Path, where: str) -> None:
    name = "n" * 300
    job = a_job(f"{lines}/{name}", tmp_path / "out") if where == "input" else a_job(str(lines), tmp_path / name)
    with pytest.raises(
        BadSpec, match=r"is too long for its file system \(one part of the path has 300 bytes; most file systems allow 255\)"
    ):
        run_job(job)


@pytest.mark.parametrize("bundled", [False, True])
def test_a_foreign_file_whose_name_is_not_utf_8_is_named(lines: Path, tmp_path: Path, bundled: bool) -> None:
    folder = tmp_path / "out"
    output = {"shards": {"count": 8}} if bundled else {}
    run_job(a_job(str(lines), folder, output=output))
    strange = os.fsdecode(b"caf\xe9.txt")
    (folder / strange).write_bytes(b"")
    with pytest.raises(NotWhole) as told:
        verify(str(folder), Access())
    assert str(told.value) == f"{folder}: {strange} does not belong to this data set."
    for overwrite in ("IfChanged", "Always"):
        with pytest.raises(OutputExists, match=f"{folder} contains {strange}, which no dataprep run planned there"):
            run_job(a_job(str(lines), folder, overwrite=overwrite, output=output))
    copying = parse_job({"source": {"dataset": {"uri": str(folder)}}, "output": {"uri": str(tmp_path / "copy"), "format": "copy"}})
    with pytest.raises(NotWhole, match=rf"1 file does not belong to this data set: {strange}\. See dataprep verify\."):
        run_job(copying)
    (folder / strange).unlink()
    run_job(copying)
    verify(str(tmp_path / "copy"), Access())


def test_a_data_set_beside_a_file_whose_name_is_not_utf_8_is_not_extended(lines: Path, tmp_path: Path) -> None:
    folder = tmp_path / "out"
    job = a_job(str(lines), folder, overwrite="Extend", output={"shards": {"records": 1}})
    run_job(job)
    (lines / "more.txt").write_text("five\n")
    strange = os.fsdecode(b"caf\xe9.txt")
    (folder / strange).write_bytes(b"")
    with pytest.raises(ConvertError, match=f"{folder} has changed since it was written, so it isn't extended"):
        run_job(job)
    (folder / strange).unlink()
    assert run_job(job)[1].records.out == 5


def test_a_file_whose_name_is_not_utf_8_fails_the_commit_step(lines: Path, tmp_path: Path) -> None:
    job = a_job(str(lines), tmp_path / "out")
    plan = plan_step.run_plan_step(job, Access()).plan
    convert_work.work(job.spec, plan=plan, shards=list(shards(plan.head)), access=Access(), attempt="a", watch=lambda _: None)
    strange = os.fsdecode(b"caf\xe9.txt")
    (tmp_path / "out" / strange).write_bytes(b"")
    with pytest.raises(NotWhole) as told:
        convert_commit.commit(job.spec, plan=plan, access=Access())
    assert str(told.value) == f"{tmp_path}/out: 1 file does not belong to this data set: {strange}."


# --- files that were cut short -----------------------------------------------------------------------------------------


def unfinished(lines: Path, to: Path, **more: Any) -> DataPrepJob:
    job = a_job(str(lines), to, **more)
    run_job(job)
    (to / "_SUCCESS").unlink()
    return job


def cut(folder: Path, name: str) -> None:
    for file in folder.rglob(name):
        file.write_bytes(file.read_bytes()[:7])


@pytest.mark.parametrize("overwrite", ["Never", "IfChanged", "Always"])
@pytest.mark.parametrize("name", ["plan.json", "OWNER", "units.parquet", "00000001.json"])
def test_what_was_cut_short_beside_an_unfinished_data_set_is_made_again(lines: Path, tmp_path: Path, name: str, overwrite: str) -> None:
    job = unfinished(lines, tmp_path / "out", overwrite=overwrite)
    before = {file.name: file.read_bytes() for file in (tmp_path / "out").glob("train*")}
    cut(tmp_path / "out", name)
    assert run_job(job)[1].records.out == 4
    assert {file.name: file.read_bytes() for file in (tmp_path / "out").glob("train*")} == before
    verify(str(tmp_path / "out"), Access(), every_record=True)


def test_a_plan_that_is_gone_in_part_is_made_again(lines: Path, tmp_path: Path) -> None:
    job = unfinished(lines, tmp_path / "out")
    next((tmp_path / "out").rglob("units.parquet")).unlink()
    assert run_job(job)[1].records.out == 4


@pytest.mark.parametrize("name", ["plan.json", "OWNER", "00000001.json"])
def test_another_job_replaces_what_was_cut_short(lines: Path, tmp_path: Path, name: str) -> None:
    unfinished(lines, tmp_path / "out")
    cut(tmp_path / "out", name)
    assert run_job(a_job(str(lines), tmp_path / "out", overwrite="Always", limit=1))[1].records.out == 1
    assert len(list((tmp_path / "out").glob("train*"))) == 1
    verify(str(tmp_path / "out"), Access(), every_record=True)


def test_a_folder_of_nobody_knows_whom_is_refused_under_never(lines: Path, tmp_path: Path) -> None:
    made_by = plan_step.run_plan_step(a_job(str(lines), tmp_path / "out"), Access()).plan.head.run_id
    cut(tmp_path / "out", "OWNER")
    with pytest.raises(OutputExists) as told:
        run_job(a_job(str(lines), tmp_path / "out", limit=1))
    assert str(told.value) == (
        f"{tmp_path}/out/_dataprep/OWNER is damaged, so the run that owns this folder is unknown. It holds files of the run {made_by}, and "
        "overwrite is Never. Set output.overwrite to IfChanged or Always, or choose another output.uri."
    )


@pytest.mark.slow
@pytest.mark.parametrize("name", ["plan.json", "OWNER", "units.parquet", "manifest.json", "_SUCCESS", "00000001.json"])
def test_whatever_is_cut_short_is_no_defect_of_ours(lines: Path, tmp_path: Path, name: str) -> None:
    for overwrite in ("Never", "IfChanged", "Always", "Extend"):
        folder = tmp_path / overwrite
        job = a_job(str(lines), folder, overwrite=overwrite)
        run_job(job)
        cut(folder, name)
        told = refusal(job)
        assert told is None or (told.exit is not Exit.INTERNAL and str(folder) in str(told))
        repair.repair(str(folder), Access(), job=job)
        verify(str(folder), Access(), every_record=True)


def test_nothing_is_removed_by_an_owner_that_can_not_be_read(lines: Path, tmp_path: Path) -> None:
    run_id = run_job(a_job(str(lines), tmp_path / "out"))[0].run_id
    cut(tmp_path / "out", "OWNER")
    with pytest.raises(ConvertError, match=r"OWNER is damaged, so the run that owns this folder is unknown; nothing was removed\."):
        remove(str(tmp_path / "out"), Access(), runs=[run_id])
    assert (tmp_path / "out/_SUCCESS").exists()


# --- folders -------------------------------------------------------------------------------------------------------------


def test_every_new_folder_of_a_file_lasts(store: FileStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[str] = []
    monkeypatch.setattr(files, "_sync_folder", synced.append)
    store.put(f"{tmp_path}/a/b/c/file", b"x")
    assert synced == [f"{tmp_path}/a/b/c", f"{tmp_path}/a/b", f"{tmp_path}/a", str(tmp_path)]
    synced.clear()
    store.put(f"{tmp_path}/a/b/d/file", b"x")
    assert synced == [f"{tmp_path}/a/b/d", f"{tmp_path}/a/b"]
    monkeypatch.chdir(tmp_path)
    synced.clear()
    store.put("new/file", b"x")
    assert synced == ["new", "."]
    assert os.path.isfile("new/file")  # noqa: PTH113 - relative, as it was given
