"""`format: copy` and `dataprep copy`: copies a finished data set to another folder, byte for byte, and resumes an interrupted copy."""

import hashlib
import shutil
from pathlib import Path
from typing import Any

import pytest
from tests.builders.jobs import run_job
from tests.builders.specs import parse_job
from tests.converter.cli.commandline import code_of

from dataprep_api.dataset.report import Manifest, Success
from dataprep_api.errors import SpecError
from dataprep_api.resources.job import DataPrepJob
from dataprep_converter.core.errors import BadSpec, NotFound, NotWhole, OutputExists
from dataprep_converter.inputs.access import Access
from dataprep_converter.stores import publish
from dataprep_converter.tools import repair
from dataprep_converter.tools.verification import verify


def a_job(root: Path, **changes: Any) -> DataPrepJob:
    spec: dict[str, Any] = {
        "source": {
            "csv": {"uris": [str(root / "in.csv")], "columns": [{"name": "x", "type": "Int64"}, {"name": "label", "type": "Int64"}]}
        },
        "onBadRecord": {"policy": "Quarantine"},
        **changes,
    }
    made_to = {"uri": str(root / "a"), "shards": {"count": 4}, **spec.pop("output", {})}
    return parse_job({**spec, "output": made_to}, name="rows")


def a_copy(root: Path, *, original: str = "a", **changes: Any) -> DataPrepJob:
    made_to = {"uri": str(root / "b"), "format": "copy", **changes.pop("output", {})}
    spec = {"source": {"dataset": {"uri": str(root / original)}}, **changes, "output": made_to}
    return parse_job(spec, name="copy")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A folder with a finished data set in `a`."""
    rows = [f"{number},{number % 3}" for number in range(80)]
    rows[5] = "rubbish,1"
    (tmp_path / "in.csv").write_text("\n".join(rows) + "\n")
    run_job(a_job(tmp_path))
    return tmp_path


def everything(folder: Path) -> dict[str, bytes]:
    """Returns all files that must be the same in a copy.

    Reports contain the store's pins, OWNER counts claims, and some other files contain the folder's path. All of these are left out.
    """
    return {
        str(file.relative_to(folder)): file.read_bytes()
        for file in sorted(folder.rglob("*"))
        if file.is_file()
        and "/reports/" not in str(file)
        and file.name not in ("OWNER", "input_data_config.json")
        and file.parent.name != "paths"
    }


def test_a_copy_is_the_same_data_set_elsewhere(root: Path) -> None:
    planned, result = run_job(a_copy(root))
    assert everything(root / "b") == everything(root / "a")
    assert (planned.records, result.records.out, result.files, result.run_id) == (80, 79, 4, planned.run_id)
    assert verify(str(root / "b"), Access(), every_record=True) == verify(str(root / "a"), Access())


@pytest.mark.parametrize("format_", ["mapFile", "mds", "parquet"])
def test_every_format_is_copied_with_what_belongs_to_it(root: Path, format_: str) -> None:
    run_job(a_job(root, output={"uri": str(root / "other"), "format": format_}))
    run_job(a_copy(root, original="other"))
    assert everything(root / "b") == everything(root / "other")
    verify(str(root / "b"), Access())


def test_several_processes_copy_too(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dataprep_converter.steps.pool.INLINE_BYTES", 0)
    run_job(a_copy(root), workers=2)
    assert everything(root / "b") == everything(root / "a")


def test_what_is_there_is_not_copied_again(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run_job(a_copy(root))
    success = (root / "b/_SUCCESS").read_bytes()
    (root / "b/_SUCCESS").unlink()
    gone = sorted((root / "b").glob("train-*"))[2]
    gone.unlink()
    copied: list[str] = []
    before = publish.copy_file

    def told(source: Any, source_uri: str, *args: Any, **more: Any) -> Any:  # Any: passed on unchanged
        copied.append(source_uri)
        return before(source, source_uri, *args, **more)

    monkeypatch.setattr("dataprep_converter.steps.copy_job.copy_file", told)
    run_job(a_copy(root))
    assert copied == [str(root / "a" / gone.name)]
    assert (root / "b/_SUCCESS").read_bytes() == success
    assert run_job(a_copy(root))[0].reused
    assert len(copied) == 1


def test_files_that_somebody_else_has_brought_are_held_against_their_digest(root: Path) -> None:
    run_job(a_copy(root))
    for name in ("_SUCCESS", "_dataprep/OWNER"):
        (root / "b" / name).unlink()
    shutil.rmtree(next((root / "b/_dataprep").glob("*/reports")))
    first = min((root / "b").glob("train-*"))
    first.write_bytes(first.read_bytes()[:-1] + b"x")
    run_job(a_copy(root))
    assert everything(root / "b") == everything(root / "a")
    verify(str(root / "b"), Access())


def test_a_damaged_original_is_not_copied(root: Path) -> None:
    damaged = min((root / "a").glob("train-*"))
    content = damaged.read_bytes()
    damaged.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    with pytest.raises(NotWhole, match=rf"{damaged} has SHA-256 [0-9a-f]+ instead of [0-9a-f]+\. See dataprep verify"):
        run_job(a_copy(root))
    assert not (root / "b" / damaged.name).exists()
    assert not (root / "b/_SUCCESS").exists()


def test_an_original_that_is_not_finished_or_not_whole_is_named(root: Path) -> None:
    with pytest.raises(NotFound, match="doesn't exist: there is no such file"):
        run_job(a_copy(root, original="nothing"))
    min((root / "a").glob("train-*")).unlink()
    with pytest.raises(NotWhole, match=r"1 file is missing: train-00000-of-00004\.tfrecords\. See dataprep verify"):
        run_job(a_copy(root))
    (root / "a/_SUCCESS").unlink()
    with pytest.raises(NotFound, match="has no _SUCCESS: there is no finished data set"):
        run_job(a_copy(root))


def test_another_digest_than_the_one_asked_for_is_refused(root: Path) -> None:
    with pytest.raises(BadSpec, match=r"has the digest [0-9a-f]{64}, but source\.dataset\.digest is 0{64}"):
        run_job(a_copy(root, source={"dataset": {"uri": str(root / "a"), "digest": "0" * 64}}))


def test_another_data_set_is_replaced_only_when_that_is_said(root: Path) -> None:
    run_job(a_job(root, output={"uri": str(root / "b"), "shards": {"count": 7}}))
    with pytest.raises(OutputExists, match="holds the finished data set of run"):
        run_job(a_copy(root))
    run_job(a_copy(root, output={"overwrite": "Always"}))
    assert everything(root / "b").keys() == everything(root / "a").keys()
    verify(str(root / "b"), Access())


def test_files_of_nobody_are_never_touched(root: Path) -> None:
    (root / "b").mkdir()
    (root / "b/mine.txt").write_text("mine")
    with pytest.raises(OutputExists, match=r"contains mine\.txt, which no dataprep run planned there"):
        run_job(a_copy(root, output={"overwrite": "Always"}))


@pytest.mark.parametrize("output", ["a", "a/inner", "."])
def test_a_data_set_is_not_copied_into_itself(root: Path, output: str) -> None:
    with pytest.raises(BadSpec, match="a job must not write to its own input|lies in"):
        run_job(a_copy(root, output={"uri": str(root / output), "overwrite": "Always"}))


@pytest.mark.slow
def test_a_copy_is_repaired_reused_and_extended_as_the_original_is(root: Path) -> None:
    (root / "grow").mkdir()
    (root / "grow/one.csv").write_text((root / "in.csv").read_text())
    growing: dict[str, Any] = {
        "source": {"csv": {"uris": [str(root / "grow")], "columns": [{"name": "x", "type": "Int64"}, {"name": "label", "type": "Int64"}]}}
    }
    run_job(a_job(root, output={"uri": str(root / "c"), "overwrite": "Extend"}, **growing))
    run_job(a_copy(root, original="c"))
    min((root / "b").glob("train-*")).unlink()
    assert repair.repair(str(root / "b"), Access()).shards == ["train-00000.tfrecords"]
    assert everything(root / "b") == everything(root / "c")
    assert run_job(a_job(root, output={"uri": str(root / "b"), "overwrite": "Extend"}, **growing))[0].reused
    (root / "grow/two.csv").write_text("1000,1\n1001,2\n")
    run_job(a_job(root, output={"uri": str(root / "b"), "overwrite": "Extend"}, **growing))
    assert verify(str(root / "b"), Access()).records_out == 81
    run_job(a_copy(root, original="b", output={"uri": str(root / "d")}))
    assert everything(root / "d") == everything(root / "b")


def test_what_a_script_has_made_is_copied(tmp_path: Path) -> None:
    script = {"command": ["sh", "-c", f"cp {tmp_path}/made/* $DATAPREP_OUTPUT"], "outputs": ["*.txt"], "image": "any"}
    (tmp_path / "made").mkdir()
    (tmp_path / "made/one.txt").write_text("one")
    document = {"script": script, "output": {"uri": str(tmp_path / "a"), "format": "jsonl"}}
    run_job(parse_job(document, name="s"))
    run_job(a_copy(tmp_path))
    assert everything(tmp_path / "b") == everything(tmp_path / "a")
    verify(str(tmp_path / "b"), Access())


def test_the_command_copies_and_says_where_the_manifest_is(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert code_of("copy", root / "a", root / "b", "--quiet") == 0
    said = Success.model_validate_json((root / "b/_SUCCESS").read_bytes())
    assert capsys.readouterr().out == f"{root}/b/{said.manifest}\n"
    written = (root / "b" / said.manifest).read_bytes()
    assert (hashlib.sha256(written).hexdigest(), Manifest.model_validate_json(written).records_out) == (said.sha256, 79)
    assert code_of("copy", root / "a", root / "b", "--quiet") == 0
    run_job(a_job(root, output={"uri": str(root / "c"), "shards": {"count": 2}}))
    assert code_of("copy", root / "c", root / "b", "--quiet") == 5
    assert "holds the finished data set of run" in capsys.readouterr().err
    assert code_of("copy", root / "c", root / "b", "--quiet", "--overwrite") == 0
    assert len(list((root / "b").glob("train-*"))) == 2


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        pytest.param({"source": {"text": {"uris": ["a"]}}}, "it needs source.dataset or source.fromJob", id="source"),
        pytest.param(
            {"source": {"fromJob": {"name": "j", "split": "train"}}}, "a copy takes all splits, so leave out fromJob.split", id="split"
        ),
        pytest.param({"shuffle": {"seed": 1}, "output": {"shards": {"count": 2}}}, "leave out shuffle, output.shards", id="records"),
        pytest.param({"onBadRecord": {"policy": "Skip"}}, "leave out onBadRecord", id="bad records"),
        pytest.param({"nulls": "Bad"}, "leave out nulls", id="nulls"),
        pytest.param({"output": {"overwrite": "Extend"}}, "source.dataset doesn't show which records are new", id="extend"),
    ],
)
def test_a_copy_is_what_the_data_set_is(tmp_path: Path, changes: dict[str, Any], said: str) -> None:
    with pytest.raises(SpecError) as caught:
        a_copy(tmp_path, **changes)
    assert said in str(caught.value)
