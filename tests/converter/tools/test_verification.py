"""The faults that `verify` reports, and the data sets that `repair` refuses."""

import hashlib
import json
import re
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.builders.files import flip_bit
from tests.builders.jobs import run_job, run_spec
from tests.builders.specs import parse_job
from tests.converter.cli.commandline import code_of

from dataprep_api import canonical
from dataprep_api.resources.job import DataPrepJob
from dataprep_converter.core.errors import BadData, BadSpec, InputChanged, NotFound, NotWhole, OutputExists, OutputLost
from dataprep_converter.formats import values
from dataprep_converter.inputs.access import Access
from dataprep_converter.steps import pool
from dataprep_converter.tools.repair import RepairResult, repair
from dataprep_converter.tools.verification import Verification, verify
from dataprep_reader import open as open_data_set

# Tests that read records run both with native.c and without it. The other tests don't depend on native.c.
both = pytest.mark.usefixtures("native_and_python")


def a_job(folder: Path, **more: Any) -> DataPrepJob:
    inputs = [folder / f"{name}.csv" for name in "ab"]
    for number, file in enumerate(inputs):
        if not file.exists():
            file.write_text("".join(f"{row}.5,{row % 3}\n" for row in range(number * 50, number * 50 + 50)))
    columns = [{"name": "x", "type": "Float32"}, {"name": "y", "type": "Int64"}]
    spec = {
        "source": {"csv": {"uris": list(map(str, inputs)), "columns": columns}},
        "features": [{"name": "x"}],
        "labels": [{"name": "y"}],
        "output": {"uri": str(folder / "out"), "shards": {"count": 4}},
    }
    return parse_job(spec | more)


@pytest.fixture
def finished(tmp_path: Path) -> Path:
    run_job(a_job(tmp_path))
    return tmp_path / "out"


def shard(folder: Path, number: int) -> Path:
    return folder / f"train-{number:05}-of-00004.tfrecords"


# --- verify ----------------------------------------------------------------------------------------------------------


@both
def test_every_fault_is_listed(finished: Path, capsys: pytest.CaptureFixture[str]) -> None:
    flip_bit(shard(finished, 1), 12)
    shard(finished, 2).unlink()
    (finished / "thesis.txt").write_text("precious")
    assert code_of("verify", finished, "--all") == 5
    said = capsys.readouterr()
    assert said.out.splitlines() == [
        f"{finished}: train-00002-of-00004.tfrecords is missing.",
        f"{finished}: thesis.txt does not belong to this data set.",
        f"{finished}: train-00001-of-00004.tfrecords: bad data CRC at offset 0.",
    ]
    assert said.err == f"dataprep: error: {finished} has 3 faults.\n"


def test_the_first_fault_alone_is_the_error(finished: Path, capsys: pytest.CaptureFixture[str]) -> None:
    flip_bit(shard(finished, 1), 12)
    flip_bit(shard(finished, 3), 12)
    assert code_of("verify", finished) == 5
    assert capsys.readouterr().err == f"dataprep: error: {finished}: train-00001-of-00004.tfrecords: bad data CRC at offset 0.\n"


def rewritten(folder: Path, change: Any) -> None:
    """Changes the manifest, and updates the digest in `_SUCCESS`."""
    (file,) = folder.glob("_dataprep/*/manifest.json")
    document = json.loads(file.read_bytes())
    change(document)
    file.write_bytes(canonical.dumps(document) + b"\n")
    success = json.loads((folder / "_SUCCESS").read_bytes())
    success["sha256"] = hashlib.sha256(file.read_bytes()).hexdigest()
    (folder / "_SUCCESS").write_bytes(canonical.dumps(success) + b"\n")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"name": "z"}, "in the record at offset 0 there is a feature 'x', which isn't in the manifest"),
        ({"dtype": "int64"}, "in the record at offset 0 the feature 'x' holds float, expected int64"),
        ({"shape": [2]}, "in the record at offset 0 the feature 'x' has 1 values, expected 2"),
    ],
)
def test_records_that_are_not_as_the_manifest_says_are_named(finished: Path, change: dict[str, Any], said: str) -> None:
    rewritten(finished, lambda document: document["features"][0].update(change))
    with pytest.raises(NotWhole) as caught:
        verify(str(finished), Access())
    assert said in str(caught.value)


def test_a_manifest_and_success_that_were_edited_together_are_noticed(finished: Path) -> None:
    rewritten(finished, lambda document: document["content"].update(limit=7))
    assert [fault.text.partition(": ")[2] for fault in Verification(str(finished), Access()).faults()] == [
        f"run {next((finished / '_dataprep').glob('*/plan.json')).parent.name} was not made from the spec and inputs in this manifest"
    ]


OF_TYPES = "a type of times or decimals, such as decimal128(20, 2), date32[day], timestamp[us, tz=UTC], time64[us] or duration[ms]"
OF_NESTED = 'the description of a type, such as {"list": "string"} or {"struct": [["x", "int64"]]}'


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"types": {"x": "decimal(3)"}}, f"types has 'decimal(3)' for the feature 'x', expected {OF_TYPES}"),
        ({"types": {"x": "decimal128(99, 2)"}}, f"types has 'decimal128(99, 2)' for the feature 'x', expected {OF_TYPES}"),
        ({"types": {"x": "int64"}}, f"types has 'int64' for the feature 'x', expected {OF_TYPES}"),
        ({"types": {"x": 7}}, f"types has '7' for the feature 'x', expected {OF_TYPES}"),
        ({"types": {"x": {"list": "date32[day]"}}}, f"types has \"{{'list': 'date32[day]'}}\" for the feature 'x', expected {OF_TYPES}"),
        ({"types": {"z": "date32[day]"}}, "types has 'z', expected one of the features x, y"),
        ({"nested": {"x": {"map": ["string"]}}}, f"nested has \"{{'map': ['string']}}\" for the feature 'x', expected {OF_NESTED}"),
        ({"nested": {"x": {"list": "strings"}}}, f"nested has \"{{'list': 'strings'}}\" for the feature 'x', expected {OF_NESTED}"),
        ({"types": 7}, "was not written by dataprep: types: Input should be an object"),
    ],
    ids=["name", "digits", "other type", "number", "list", "feature", "map", "nested list", "no types"],
)
def test_an_edited_manifest_with_an_unknown_type_is_named(
    finished: Path, change: dict[str, Any], said: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    rewritten(finished, lambda document: document.update(change | {"version": 5}))
    (manifest,) = finished.glob("_dataprep/*/manifest.json")
    for command in ("verify", "inspect", "head"):
        assert code_of(command, finished) == 5
        assert capsys.readouterr().err == f"dataprep: error: {manifest}{' ' if said.startswith('was') else ': '}{said}.\n"
    with pytest.raises(BadData, match=re.escape(said)):
        open_data_set(str(finished))
    with pytest.raises(BadData, match=re.escape(said)):
        run_spec({"source": {"dataset": {"uri": str(finished)}}, "output": {"uri": str(tmp_path / "again")}})
    is_readable = not said.startswith("was")
    assert code_of("repair", finished) == (0 if is_readable else 2)  # if there is no manifest, repair asks for the job
    assert code_of("verify", finished) == (0 if is_readable else 5)


@both
def test_all_records_can_be_parsed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run_job(a_job(tmp_path, output={"uri": str(tmp_path / "out")}))
    parsed: list[object] = []
    whole = values.fault

    def counted(features: Any, record: Any) -> str | None:
        parsed.append(record)
        return whole(features, record)

    monkeypatch.setattr(values, "fault", counted)
    verify(str(tmp_path / "out"), Access())
    few = len(parsed)
    verify(str(tmp_path / "out"), Access(), every_record=True)
    assert (few, len(parsed) - few) == (64, 100)


# --- values ----------------------------------------------------------------------------------------------------------


def a_feature(**more: Any) -> dict[str, Any]:
    return {"name": "f", "dtype": "int64", "shape": [], "raw": False, "sequence": False} | more


@pytest.mark.parametrize(
    ("feature", "found", "said"),
    [
        (a_feature(), [1], None),
        (a_feature(), [], None),
        (a_feature(), [1, 2], "has 2 values, expected 1"),
        (a_feature(dtype="uint8"), [256], "has the value 256, which is outside the range of uint8"),
        (a_feature(dtype="float32", shape=[2]), [1.0, 2.0], None),
        (a_feature(dtype="float32", shape=[2]), [b"x", 2.0], "holds bytes, float, expected float32"),
        (a_feature(dtype="bytes"), [b"x"], None),
        (a_feature(dtype="bytes"), [1], "holds int, expected bytes"),
        (a_feature(shape=[-1]), [1, 2, 3], None),
        (a_feature(dtype="uint8", shape=[2, 2], raw=True), [b"abcd"], None),
        (a_feature(dtype="uint16", shape=[2, 2], raw=True), [b"abcd"], "has 4 bytes in 1 values, expected 8 for uint16[2, 2]"),
        (a_feature(shape=[-1, 2], sequence=True), [[1, 2], [3, 4]], None),
        (a_feature(shape=[-1, 2], sequence=True), [[1, 2], [3]], "has 1 values, expected 2 in step 2"),
    ],
)
def test_values_are_held_against_their_feature(feature: dict[str, Any], found: list[Any], said: str | None) -> None:
    assert values.fault([feature], {"f": found}) == (f"the feature 'f' {said}" if said else None)


def test_a_missing_feature_is_named() -> None:
    assert values.fault([a_feature()], {}) == "the feature 'f' is missing"
    assert values.fault([a_feature(shape=[-1])], {}) is None


@pytest.mark.parametrize(
    ("feature", "rows", "plain"),
    [
        (a_feature(), [[1], [], [3]], [1, None, 3]),
        (a_feature(dtype="uint8", shape=[2], raw=True), [[b"ab"], []], [[97, 98], None]),
        (a_feature(dtype="float32", shape=[2, 1]), [[1.0, 2.0]], [[1.0, 2.0]]),
        (a_feature(dtype="bytes", text=True), [["é".encode()], []], ["é", None]),
        (a_feature(dtype="bytes", shape=[2]), [[b"a", b"b"]], [[b"a", b"b"]]),
        (a_feature(shape=[-1]), [[1, 2], []], [[1, 2], []]),
        (a_feature(shape=[-1, 2], sequence=True), [[[1, 2], [3, 4]], []], [[[1, 2], [3, 4]], []]),
        (a_feature(shape=[-1, -1], sequence=True), [[[1], [], [2, 3]]], [[[1], [], [2, 3]]]),
        (a_feature(dtype="uint8", shape=[-1, 2], raw=True, sequence=True), [[[b"ab"], [b"cd"]]], [[[97, 98], [99, 100]]]),
    ],
)
def test_values_become_a_column(feature: dict[str, Any], rows: list[Any], plain: list[Any]) -> None:
    column = values.columns([feature], [{"f": row} for row in rows]).column(0)
    assert (column.storage if isinstance(column, pa.ExtensionArray) else column).to_pylist() == plain


# --- repair ----------------------------------------------------------------------------------------------------------


@both
def test_only_what_is_broken_is_made_again(finished: Path) -> None:
    kept = {number: shard(finished, number).stat().st_mtime_ns for number in (0, 1, 3)}
    flip_bit(shard(finished, 2), 20)
    repaired = repair(str(finished), Access())
    assert repaired.shards == [shard(finished, 2).name]
    assert {number: shard(finished, number).stat().st_mtime_ns for number in kept} == kept
    verify(str(finished), Access(), expect=repaired.manifest_sha256)


def test_a_whole_data_set_is_left_alone(finished: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = {file: file.stat().st_mtime_ns for file in finished.rglob("*")}
    assert code_of("repair", finished) == 0
    assert capsys.readouterr().out.splitlines()[0] == "nothing to repair"
    assert {file: file.stat().st_mtime_ns for file in finished.rglob("*")} == before


def test_a_copy_is_repaired_where_it_lies(finished: Path, tmp_path: Path) -> None:
    for file in (copy := Path(shutil.copytree(finished, tmp_path / "copy", copy_function=shutil.copyfile))).glob("train-*"):
        file.touch()
    assert repair(str(copy), Access()).shards == []
    shard(copy, 3).unlink()
    assert repair(str(copy), Access()).shards == [shard(copy, 3).name]
    assert shard(copy, 3).read_bytes() == shard(finished, 3).read_bytes()
    verify(str(finished), Access())


def test_changed_inputs_are_named_and_nothing_is_touched(finished: Path, tmp_path: Path) -> None:
    shard(finished, 3).unlink()
    (tmp_path / "b.csv").write_text("1.5,0\n" * 50)
    before = {file: file.stat().st_mtime_ns for file in finished.rglob("*")}
    with pytest.raises(InputChanged, match=rf"^1 input of the broken shards changed .*: {tmp_path}/b\.csv\. The data set was not changed"):
        repair(str(finished), Access())
    assert {file: file.stat().st_mtime_ns for file in finished.rglob("*")} == before


def test_inputs_of_other_shards_may_have_changed(finished: Path, tmp_path: Path) -> None:
    before = shard(finished, 0).read_bytes()
    shard(finished, 0).unlink()
    (tmp_path / "b.csv").unlink()
    repair(str(finished), Access())
    assert shard(finished, 0).read_bytes() == before


def test_another_job_is_refused(finished: Path, tmp_path: Path) -> None:
    shard(finished, 0).unlink()
    with pytest.raises(BadSpec, match=r"is not the one that made run [0-9a-f]{16}: limit, shuffle differ\."):
        repair(str(finished), Access(), job=a_job(tmp_path, limit=7, shuffle={"seed": 1}))
    (manifest,) = finished.glob("_dataprep/*/manifest.json")
    manifest.write_text("{")
    with pytest.raises(BadSpec, match=r"pass the job file with --job"):
        repair(str(finished), Access())
    with pytest.raises(BadSpec, match=r"is not the one that made run [0-9a-f]{16}\."):
        repair(str(finished), Access(), job=a_job(tmp_path, limit=7))
    repair(str(finished), Access(), job=a_job(tmp_path))
    verify(str(finished), Access())


def test_files_of_somebody_else_stay_and_are_named(finished: Path) -> None:
    (finished / "thesis.txt").write_text("precious")
    shard(finished, 0).unlink()
    with pytest.raises(OutputExists, match=r"holds thesis\.txt, which does not belong to this data set; move it away"):
        repair(str(finished), Access())
    assert (finished / "thesis.txt").read_text() == "precious"
    assert (finished / "_SUCCESS").exists()


def test_a_folder_that_another_run_has_taken_is_refused(finished: Path) -> None:
    shard(finished, 0).unlink()
    (finished / "_dataprep" / "OWNER").write_text('{"epoch":2,"runId":"other"}')
    with pytest.raises(OutputLost, match="run other has taken it over"):
        repair(str(finished), Access())


def test_a_folder_without_a_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="there is no data set to repair"):
        repair(str(tmp_path), Access())


def test_it_is_not_finished_until_it_is_whole_and_goes_on_where_it_stopped(finished: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = {number: shard(finished, number).read_bytes() for number in range(4)}
    success = (finished / "_SUCCESS").read_bytes()
    shard(finished, 1).unlink()
    flip_bit(shard(finished, 2), 20)
    with monkeypatch.context() as patched:

        def stop(*_: object, **__: object) -> None:
            assert not (finished / "_SUCCESS").exists()
            raise KeyboardInterrupt

        patched.setattr(pool, "run_tasks", stop)
        with pytest.raises(KeyboardInterrupt):
            repair(str(finished), Access())
    repaired = repair(str(finished), Access())
    assert len(repaired.shards) == 2
    assert (finished / "_SUCCESS").read_bytes() == success
    assert {number: shard(finished, number).read_bytes() for number in range(4)} == before
    assert repair(str(finished), Access()) == RepairResult(repaired.manifest_sha256, shards=[], other_faults=[])


def test_a_join_is_made_again_for_its_rows(tmp_path: Path) -> None:
    def table(name: str, column: str) -> dict[str, Any]:
        file = tmp_path / f"{name}.csv"
        file.write_text("".join(f"{row},{row * 2}\n" for row in range(40)))
        columns = [{"name": "id", "type": "Int64"}, {"name": column, "type": "Int64"}]
        return {"name": name, "source": {"csv": {"uris": [str(file)], "columns": columns}}}

    tables = [table("left", "x"), table("right", "z")]
    run_job(a_job(tmp_path, source={"join": {"keys": ["id"], "tables": tables}}, features=[{"name": "x"}], labels=[{"name": "z"}]))
    before = shard(tmp_path / "out", 1).read_bytes()
    shard(tmp_path / "out", 1).unlink()
    assert repair(str(tmp_path / "out"), Access()).shards == [shard(tmp_path / "out", 1).name]
    assert shard(tmp_path / "out", 1).read_bytes() == before


def test_other_bytes_are_not_passed_off_as_the_old_ones(finished: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from dataprep_converter.formats.tfrecord.tfrecord_encoder import TfrecordEncoder

    shard(finished, 1).unlink()
    pieces = TfrecordEncoder.pieces
    monkeypatch.setattr(TfrecordEncoder, "pieces", lambda self, batch: [b"".join(pieces(self, batch))[:-1] + b"x"])
    with pytest.raises(NotWhole, match=r"train-00001-of-00004\.tfrecords was made again with different bytes: SHA-256"):
        repair(str(finished), Access())
    assert not (finished / "_SUCCESS").exists()
