"""`overwrite: Extend`: converts only new inputs. The shards of earlier runs keep their names, bytes and records."""

import hashlib
import io
import json
from pathlib import Path
from typing import Any

import pytest
from PIL import Image
from tests.builders.jobs import run_job
from tests.builders.specs import parse_job

from dataprep_api.dataset import run_id
from dataprep_api.dataset.report import Manifest, MetadataFile, Success
from dataprep_api.errors import SpecError
from dataprep_api.resources.job import DataPrepJob
from dataprep_converter.core.errors import BadData, BadSpec, ConvertError, InputChanged, NotWhole
from dataprep_converter.inputs.access import Access
from dataprep_converter.runtime import plugins
from dataprep_converter.steps import plan_step
from dataprep_converter.tools import repair
from dataprep_converter.tools.inspect import inspection
from dataprep_converter.tools.verification import verify
from dataprep_reader import open as open_data_set

HALVES = {"seed": 3, "into": [{"name": "train", "fraction": 0.5}, {"name": "test", "fraction": 0.5}]}


def day(folder: Path, number: int, *, rows: int = 40) -> None:
    """Writes another file of rows. `x` counts from 1,000 times the day's number, so no two days have the same `x`."""
    folder.mkdir(exist_ok=True)
    first = number * 1000
    lines = [f"{first + row},{row % 3}" for row in range(rows)]
    (folder / f"day-{number:02}.csv").write_text("x,label\n" + "\n".join(lines) + "\n")


def a_job(root: Path, **spec: Any) -> DataPrepJob:
    written: dict[str, Any] = {
        "source": {
            "csv": {
                "uris": [str(root / "in")],
                "header": True,
                "columns": [{"name": "x", "type": "Int64"}, {"name": "label", "type": "Int64"}],
            }
        },
        "splits": HALVES,
        "shuffle": {"seed": 5},
        **spec,
    }
    output = {"uri": str(root / "out"), "overwrite": "Extend", "shards": {"count": 2}, **written.pop("output", {})}
    return parse_job({**written, "output": output}, name="days")


def visible(folder: Path) -> dict[str, bytes]:
    return {
        str(file.relative_to(folder)): file.read_bytes()
        for file in sorted(folder.rglob("*"))
        if file.is_file() and not any(part[0] in "_." for part in file.relative_to(folder).parts)
    }


def everything(folder: Path) -> dict[str, bytes]:
    """Returns all files that don't depend on the time or the folder.

    The reports, the stores' pins in the units, and files that contain the folder's path are left out.
    """
    return {
        str(file.relative_to(folder)): file.read_bytes()
        for file in sorted(folder.rglob("*"))
        if file.is_file()
        and "/reports/" not in str(file)
        and file.name not in ("units.parquet", "plan.json", "input_data_config.json")
        and file.parent.name != "paths"
    }


def manifest(folder: Path) -> Manifest:
    success = Success.model_validate_json((folder / "_SUCCESS").read_bytes())
    written = (folder / success.manifest).read_bytes()
    assert hashlib.sha256(written).hexdigest() == success.sha256
    return Manifest.model_validate_json(written)


def values(folder: Path, split: str) -> list[int]:
    return [int(value) for batch in open_data_set(str(folder), split=split) for value in batch["x"].ravel()]


def days(root: Path, *numbers: int) -> None:
    for number in numbers:
        day(root / "in", number)


def test_new_inputs_become_new_shards_and_the_old_ones_stay_as_they_are(tmp_path: Path) -> None:
    days(tmp_path, 2, 5)
    run_job(a_job(tmp_path))
    first = visible(tmp_path / "out")
    before = {split: values(tmp_path / "out", split) for split in ("train", "test")}
    assert list(first) == ["test-00000.tfrecords", "test-00001.tfrecords", "train-00000.tfrecords", "train-00001.tfrecords"]

    days(tmp_path, 1, 9)
    planned, result = run_job(a_job(tmp_path))
    second = visible(tmp_path / "out")

    assert {name: second[name] for name in first} == first
    assert sorted(set(second) - set(first)) == [f"{split}-0000{number}.tfrecords" for split in ("test", "train") for number in (2, 3)]
    assert (planned.records, result.records.out, result.files) == (160, 160, 8)
    assert [(split.name, split.shards) for split in planned.splits] == [("train", 4), ("test", 4)]
    for split, old in before.items():
        now = values(tmp_path / "out", split)
        assert now[: len(old)] == old
        assert {value // 1000 for value in now[len(old) :]} == {1, 9}
    assert sorted(value for split in before for value in values(tmp_path / "out", split)) == sorted(
        1000 * n + row for n in (1, 2, 5, 9) for row in range(40)
    )
    assert verify(str(tmp_path / "out"), Access(), every_record=True).records_out == 160


def test_a_sample_is_in_the_split_in_which_it_would_be_had_all_been_there_at_once(tmp_path: Path) -> None:
    days(tmp_path, 2)
    run_job(a_job(tmp_path))
    days(tmp_path, 1)
    run_job(a_job(tmp_path))
    run_job(a_job(tmp_path, output={"uri": str(tmp_path / "once")}))
    for split in ("train", "test"):
        assert sorted(values(tmp_path / "out", split)) == sorted(values(tmp_path / "once", split))
    assert manifest(tmp_path / "out").run_id != manifest(tmp_path / "once").run_id


def test_equal_histories_make_equal_bytes_for_any_workers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    days(tmp_path, 1)
    for output in ("out", "other"):
        run_job(a_job(tmp_path, output={"uri": str(tmp_path / output)}))
    days(tmp_path, 2, 3)
    run_job(a_job(tmp_path), workers=1)
    monkeypatch.setattr("dataprep_converter.steps.pool.INLINE_BYTES", 0)
    run_job(a_job(tmp_path, output={"uri": str(tmp_path / "other")}, workers={"parallelism": 3}), workers=2)
    one, other = everything(tmp_path / "out"), everything(tmp_path / "other")
    assert one == other


def test_several_extensions_follow_each_other_and_only_the_last_run_is_left(tmp_path: Path) -> None:
    for number in range(1, 5):
        days(tmp_path, number)
        run_job(a_job(tmp_path))
    assert [file.file for file in manifest(tmp_path / "out").files if file.split == "train"] == [
        f"train-{n:05}.tfrecords" for n in range(8)
    ]
    assert len([path for path in (tmp_path / "out/_dataprep").iterdir() if (path / "plan.json").is_file()]) == 1
    assert verify(str(tmp_path / "out"), Access(), every_record=True).records_out == 160


def test_nothing_new_is_nothing_to_do(tmp_path: Path) -> None:
    days(tmp_path, 1)
    run_job(a_job(tmp_path))
    days(tmp_path, 2)
    run_job(a_job(tmp_path))
    before = {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in (tmp_path / "out").rglob("*") if path.is_file()}
    planned, _ = run_job(a_job(tmp_path))
    assert planned.reused
    assert {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in (tmp_path / "out").rglob("*") if path.is_file()} == before


def test_readers_metadata_cover_the_whole_data_set(tmp_path: Path) -> None:
    days(tmp_path, 1)
    run_job(a_job(tmp_path))
    days(tmp_path, 2)
    run_job(a_job(tmp_path))
    folder = tmp_path / "out"
    said = manifest(folder)
    info = json.loads((folder / "_tfds/dataset/1.0.0/dataset_info.json").read_text())
    for split in info["splits"]:
        files = [file for file in said.files if file.split == split["name"]]
        assert split["filepathTemplate"] == f"../../../{split['name']}-{{SHARD_INDEX}}.tfrecords"
        assert split["shardLengths"] == [str(file.records) for file in files]
        assert (folder / f"_dataprep/paths/{split['name']}.txt").read_text().split() == [f"file://{folder}/{file.file}" for file in files]
    assert {path.name for path in (folder / "_dataprep/index").iterdir()} == {f"{file.file}.idx" for file in said.files}
    assert sum(sum(split.label_counts["label"].values()) for split in said.splits) == 80
    shown = io.StringIO()
    inspection.show(str(folder), Access(), records=1, as_json=True, stream=shown)
    assert json.loads(shown.getvalue())["manifest"]["recordsOut"] == 80


@pytest.mark.parametrize("format_", ["mds", "webdataset", "sequenceFile", "parquet", "npz"])
def test_other_formats_grow_too(tmp_path: Path, format_: str) -> None:
    days(tmp_path, 1)
    run_job(a_job(tmp_path, output={"format": format_}))
    first = visible(tmp_path / "out")
    days(tmp_path, 2)
    run_job(a_job(tmp_path, output={"format": format_}))
    second = visible(tmp_path / "out")
    assert {name: second[name] for name in first if not name.endswith("index.json")} == {
        name: first[name] for name in first if not name.endswith("index.json")
    }
    assert len(second) == len(first) + 4
    assert verify(str(tmp_path / "out"), Access(), every_record=True).records_out == 80


@pytest.mark.parametrize(
    "rules",
    [
        pytest.param({"column": "x", "into": [{"name": "test", "since": "1030"}, {"name": "train"}]}, id="by value"),
        pytest.param({"groupBy": "label", "into": [{"name": "train", "fraction": 0.5}, {"name": "test", "fraction": 0.5}]}, id="by group"),
    ],
)
def test_splits_by_what_a_record_says_go_on_as_they_were(tmp_path: Path, rules: dict[str, Any]) -> None:
    days(tmp_path, 1)
    run_job(a_job(tmp_path, splits=rules))
    first = visible(tmp_path / "out")
    days(tmp_path, 0, 2)
    run_job(a_job(tmp_path, splits=rules))
    run_job(a_job(tmp_path, splits=rules, output={"uri": str(tmp_path / "once")}))
    second = visible(tmp_path / "out")
    assert {name: second[name] for name in first} == first
    for split in ("train", "test"):
        assert sorted(values(tmp_path / "out", split)) == sorted(values(tmp_path / "once", split))
    assert verify(str(tmp_path / "out"), Access(), every_record=True).records_out == 120


def test_a_split_of_which_nothing_is_new_keeps_what_it_has(tmp_path: Path) -> None:
    rules = {"column": "x", "into": [{"name": "test", "before": "1040"}, {"name": "train"}]}
    days(tmp_path, 1, 2)
    run_job(a_job(tmp_path, splits=rules))
    days(tmp_path, 3)
    planned, _ = run_job(a_job(tmp_path, splits=rules))
    assert [(split.name, split.records, split.shards) for split in planned.splits] == [("test", 40, 2), ("train", 80, 4)]
    assert planned.warnings == []


def refused(job: DataPrepJob) -> str:
    with pytest.raises(ConvertError) as caught:
        run_job(job)
    return str(caught.value)


def test_inputs_that_are_gone_or_changed_are_named_and_nothing_is_touched(tmp_path: Path) -> None:
    days(tmp_path, 1, 2, 3)
    run_job(a_job(tmp_path))
    before = everything(tmp_path / "out")
    days(tmp_path, 4)
    day(tmp_path / "in", 2, rows=41)
    with pytest.raises(InputChanged, match=r"1 input has changed since its records became part of the data set: .*day-02\.csv"):
        run_job(a_job(tmp_path))
    (tmp_path / "in/day-01.csv").unlink()
    (tmp_path / "in/day-03.csv").unlink()
    with pytest.raises(
        InputChanged,
        match=r"2 inputs whose records are in the data set are gone: .*day-01\.csv, .*day-03\.csv\. Put them back, or set output\.overwrite: Always",
    ):
        run_job(a_job(tmp_path))
    assert everything(tmp_path / "out") == before


def test_what_would_change_old_records_is_refused_by_name(tmp_path: Path) -> None:
    days(tmp_path, 1)
    run_job(a_job(tmp_path))
    days(tmp_path, 2)
    assert "can't extend the data set: shuffle differs" in refused(a_job(tmp_path, shuffle={"seed": 6}))
    assert "output.compression" not in refused(a_job(tmp_path, output={"format": "parquet"}))
    assert "can't extend the data set: output.format differs" in refused(a_job(tmp_path, output={"format": "parquet"}))
    assert "can't extend the data set: output.shards differs" in refused(a_job(tmp_path, output={"shards": {"count": 3}}))


def test_a_data_set_whose_names_count_the_shards_is_not_extended(tmp_path: Path) -> None:
    days(tmp_path, 1)
    run_job(a_job(tmp_path, output={"overwrite": "Never"}))
    days(tmp_path, 2)
    assert "its file names contain the number of files. To be able to extend a data set later, make it with overwrite: Extend" in refused(
        a_job(tmp_path)
    )


def test_a_data_set_of_another_policy_with_names_that_can_go_on_is_extended(tmp_path: Path) -> None:
    days(tmp_path, 1)
    run_job(a_job(tmp_path, output={"overwrite": "Never", "fileName": "{split}-{shard}.{ext}"}))
    days(tmp_path, 2)
    run_job(a_job(tmp_path))
    assert len(visible(tmp_path / "out")) == 8


def test_types_that_the_new_inputs_would_change_are_named(tmp_path: Path) -> None:
    job = a_job(tmp_path, source={"csv": {"uris": [str(tmp_path / "in")], "header": True}})
    days(tmp_path, 1)
    run_job(job)
    (tmp_path / "in/day-00.csv").write_text("x,label\nwords,0\n")
    assert "With the new inputs, the source's columns would be" in refused(job)


def picture(folder: Path, number: int) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", (4, 4), (number, 0, 0)).save(folder / f"{number}.png")


def test_a_split_that_is_new_does_not_change_the_names_of_the_others(tmp_path: Path) -> None:
    source = {"images": {"uris": [str(tmp_path / "in")], "subsetFrom": "FirstFolder"}}
    jobs = {
        name: a_job(tmp_path, source=source, splits=None, shuffle=None, output={"uri": str(tmp_path / name), "format": name})
        for name in ("sequenceFile", "tfrecord")
    }
    for number in range(4):
        picture(tmp_path / "in/train/cat", number)
    for job in jobs.values():
        run_job(job)
    picture(tmp_path / "in/test/cat", 9)
    run_job(jobs["tfrecord"])
    assert list(visible(tmp_path / "tfrecord")) == ["test-00000.tfrecords", "train-00000.tfrecords", "train-00001.tfrecords"]
    picture(tmp_path / "in/train/cat", 8)
    assert "the files of train would be named {split}/part-r-{shard} instead of part-r-{shard}" in refused(jobs["sequenceFile"])


def test_a_class_that_is_new_is_named(tmp_path: Path) -> None:
    job = a_job(tmp_path, source={"images": {"uris": [str(tmp_path / "in")]}}, splits=None, shuffle=None)
    for number in range(4):
        picture(tmp_path / "in/cat", number)
        picture(tmp_path / "in/dog", number)
    run_job(job)
    picture(tmp_path / "in/bat", 1)
    assert "classes that the data set doesn't have: bat. The data set's 2 classes keep their numbers" in refused(job)
    (tmp_path / "in/bat/1.png").unlink()
    (tmp_path / "in/bat").rmdir()
    picture(tmp_path / "in/cat", 9)
    planned, result = run_job(job)
    assert (result.records.out, planned.labels[0].classes) == (9, ["cat", "dog"])


def test_shards_that_were_changed_by_others_are_not_built_upon(tmp_path: Path) -> None:
    days(tmp_path, 1)
    run_job(a_job(tmp_path))
    (tmp_path / "out/train-00000.tfrecords").write_bytes(b"")
    days(tmp_path, 2)
    with pytest.raises(NotWhole, match="has changed since it was written, so it isn't extended. See dataprep verify and dataprep repair"):
        run_job(a_job(tmp_path))


def test_an_extended_data_set_is_repaired(tmp_path: Path) -> None:
    days(tmp_path, 1)
    run_job(a_job(tmp_path))
    days(tmp_path, 2)
    run_job(a_job(tmp_path))
    before = everything(tmp_path / "out")
    (tmp_path / "out/train-00000.tfrecords").unlink()
    (tmp_path / "out/test-00003.tfrecords").write_bytes(b"x")
    repaired = repair.repair(str(tmp_path / "out"), Access())
    assert sorted(repaired.shards) == ["test-00003.tfrecords", "train-00000.tfrecords"]
    assert everything(tmp_path / "out") == before


def test_an_extension_that_fails_leaves_the_old_shards_and_goes_on_from_them(tmp_path: Path) -> None:
    days(tmp_path, 1)
    run_job(a_job(tmp_path))
    before = everything(tmp_path / "out")
    (tmp_path / "in/day-02.csv").write_text("x,label\n2000,1\nnonsense,2\n")
    with pytest.raises(BadData):
        run_job(a_job(tmp_path))
    assert not (tmp_path / "out/_SUCCESS").exists()
    (tmp_path / "in/day-02.csv").unlink()
    run_job(a_job(tmp_path))
    assert {name: content for name, content in everything(tmp_path / "out").items() if name != "_dataprep/OWNER"} == {
        name: content for name, content in before.items() if name != "_dataprep/OWNER"
    }
    days(tmp_path, 3)
    run_job(a_job(tmp_path))
    assert verify(str(tmp_path / "out"), Access()).records_out == 80


def test_more_that_arrives_while_an_extension_is_unfinished_is_taken_in(tmp_path: Path) -> None:
    days(tmp_path, 1)
    run_job(a_job(tmp_path))
    first = visible(tmp_path / "out")
    days(tmp_path, 2)
    plan_step.run_plan_step(a_job(tmp_path), Access())
    days(tmp_path, 3)
    run_job(a_job(tmp_path))
    second = visible(tmp_path / "out")
    assert {name: second[name] for name in first} == first
    assert verify(str(tmp_path / "out"), Access()).records_out == 120
    assert len(second) == 8


def test_quarantined_records_of_earlier_runs_are_kept(tmp_path: Path) -> None:
    days(tmp_path, 1)
    (tmp_path / "in/day-00.csv").write_text("x,label\nnonsense,2\n")
    run_job(a_job(tmp_path, onBadRecord={"policy": "Quarantine"}))
    (tmp_path / "in/day-02.csv").write_text("x,label\nrubbish,2\n2000,1\n")
    run_job(a_job(tmp_path, onBadRecord={"policy": "Quarantine"}))
    said = verify(str(tmp_path / "out"), Access())
    kept = b"".join((tmp_path / "out" / file).read_bytes() for file in said.quarantine)
    assert (said.bad, len(said.quarantine), b"nonsense" in kept, b"rubbish" in kept) == (2, 2, True, True)


def test_always_makes_it_anew(tmp_path: Path) -> None:
    days(tmp_path, 1)
    run_job(a_job(tmp_path))
    days(tmp_path, 2)
    run_job(a_job(tmp_path))
    run_job(a_job(tmp_path, output={"overwrite": "Always", "fileName": "{split}-{shard}.{ext}"}))
    assert len(visible(tmp_path / "out")) == 4
    assert verify(str(tmp_path / "out"), Access()).records_out == 80


def test_a_dry_run_tells_what_the_extension_would_be(tmp_path: Path) -> None:
    days(tmp_path, 1)
    run_job(a_job(tmp_path))
    days(tmp_path, 2)
    before = everything(tmp_path / "out")
    assert plan_step.dry_run(a_job(tmp_path), Access()).records == 80
    assert everything(tmp_path / "out") == before


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        pytest.param(
            {"splits": {"into": [{"name": "test", "first": 5}, {"name": "train"}]}},
            "the split 'test' takes a number of records (first)",
            id="first",
        ),
        pytest.param(
            {"splits": {"into": [{"name": "test", "count": 5}, {"name": "train"}]}},
            "the split 'test' takes a number of records (count)",
            id="count",
        ),
        pytest.param({"splits": {**HALVES, "exact": True}}, "splits.exact depends on the number of records", id="exact"),
        pytest.param(
            {"splits": {**HALVES, "stratifyBy": "label"}},
            "splits.stratifyBy depends on the number of records of each class",
            id="stratifyBy",
        ),
        pytest.param({"limit": 5}, "limit chooses from all records", id="limit"),
        pytest.param({"deduplicate": {"columns": ["x"]}}, "deduplicate compares all records with each other", id="deduplicate"),
        pytest.param({"source": {"dataset": {"uri": "d"}}}, "source.dataset doesn't show which records are new", id="dataset"),
        pytest.param({"source": {"fromJob": {"name": "d"}}}, "source.fromJob doesn't show which records are new", id="fromJob"),
        pytest.param(
            {"output": {"fileName": "{split}-{shard}-of-{shards}.{ext}"}},
            "the file name must contain {shard} and must not contain {shards}",
            id="shards",
        ),
        pytest.param({"output": {"fileName": "{split}.{ext}"}}, "the file name must contain {shard}", id="no number"),
        pytest.param({"output": {"format": "arrow", "table": {"uri": "odps://p/tables/t"}}}, "a table can't be extended", id="table"),
    ],
)
def test_what_can_never_grow_is_refused_before_the_first_run(tmp_path: Path, spec: dict[str, Any], said: str) -> None:
    with pytest.raises(SpecError) as caught:
        a_job(tmp_path, **spec)
    assert said in str(caught.value)


def test_code_that_has_changed_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    days(tmp_path, 1)
    run_job(a_job(tmp_path))
    days(tmp_path, 2)
    monkeypatch.setattr(plugins, "digest", lambda: "other")
    with pytest.raises(BadSpec, match=r"The files of spec\.code differ from those that made the data set"):
        run_job(a_job(tmp_path, code={"configMapRef": {"name": "mine"}}))


def test_dl4js_data_set_of_an_older_release_keeps_its_names_when_it_is_extended_and_repaired(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    days(tmp_path, 1)
    spec: dict[str, Any] = {"splits": None, "features": [{"name": "x"}], "output": {"format": "dl4jDataset"}}
    with monkeypatch.context() as older:
        # Releases in which the rules of a plan had no versions behaved in this way.
        older.setattr(run_id, "versions", lambda _: {})
        run_job(a_job(tmp_path, **spec))
    assert sorted(visible(tmp_path / "out")) == ["dataset_00000.bin", "dataset_00001.bin"]
    before = visible(tmp_path / "out")
    (tmp_path / "out/dataset_00001.bin").unlink()
    next((tmp_path / "out/_dataprep").glob("*/plan.json")).unlink()
    repair.repair(str(tmp_path / "out"), Access())
    assert visible(tmp_path / "out") == before

    days(tmp_path, 2)
    run_job(a_job(tmp_path, **spec))
    assert sorted(visible(tmp_path / "out")) == [f"dataset_0000{number}.bin" for number in range(4)]
    assert verify(str(tmp_path / "out"), Access()).parts == {}


def with_a_secret(root: Path, **output: Any) -> DataPrepJob:
    csv = {"uris": [str(root / "in")], "header": True, "nullWords": ["https://me:s3cr3t-m4rk@h/x"]}
    return a_job(root, source={"csv": csv}, output=output)


def test_a_data_set_with_a_credential_in_its_manifest_is_extended_without_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    days(tmp_path, 1)
    with monkeypatch.context() as older:
        older.setattr(run_id, "with_credentials_masked", lambda value: value)
        run_job(with_a_secret(tmp_path))
    old = manifest(tmp_path / "out").run_id
    assert b"s3cr3t" in (tmp_path / f"out/_dataprep/{old}/manifest.json").read_bytes()
    next((tmp_path / "out").glob("train*")).unlink()
    with pytest.raises(
        BadSpec, match=r"made by a release that stored the job's credentials in the manifest\. This release doesn't store them"
    ):
        repair.repair(str(tmp_path / "out"), Access())
    with monkeypatch.context() as older:
        older.setattr(run_id, "with_credentials_masked", lambda value: value)
        repair.repair(str(tmp_path / "out"), Access())

    days(tmp_path, 2)
    run_job(with_a_secret(tmp_path))
    assert values(tmp_path / "out", "train") + values(tmp_path / "out", "test") != []
    assert manifest(tmp_path / "out").records_out == 80
    assert not [file for file in (tmp_path / "out").rglob("*") if file.is_file() and b"s3cr3t" in file.read_bytes()]


def test_a_data_set_whose_manifest_lacks_a_credential_is_repaired_by_its_job(tmp_path: Path) -> None:
    days(tmp_path, 1)
    run_job(with_a_secret(tmp_path))
    before = visible(tmp_path / "out")
    next((tmp_path / "out").glob("train*")).unlink()
    with pytest.raises(BadSpec, match="contained credentials, which aren't stored with the data set; pass the job file with --job"):
        repair.repair(str(tmp_path / "out"), Access())
    repair.repair(str(tmp_path / "out"), Access(), job=with_a_secret(tmp_path))
    assert visible(tmp_path / "out") == before


def test_files_around_the_data_that_another_release_made_otherwise_stay_when_a_shard_is_repaired(tmp_path: Path) -> None:
    days(tmp_path, 1)
    run_job(a_job(tmp_path))
    out = tmp_path / "out"
    loader = out / "_dataprep/loaders/load_torch.py"
    loader.write_text("# of another release\n")
    told = manifest(out)
    theirs = MetadataFile(
        file="_dataprep/loaders/load_torch.py", size=loader.stat().st_size, sha256=hashlib.sha256(loader.read_bytes()).hexdigest()
    )
    told = told.model_copy(update={"metadata": [theirs if file.file == theirs.file else file for file in told.metadata]})
    success = Success.model_validate_json((out / "_SUCCESS").read_bytes())
    (out / success.manifest).write_bytes(told.to_bytes())
    (out / "_SUCCESS").write_bytes(success.model_copy(update={"sha256": hashlib.sha256(told.to_bytes()).hexdigest()}).to_bytes())
    shard = out / "train-00000.tfrecords"
    before = shard.read_bytes()
    shard.unlink()
    repair.repair(str(out), Access())
    assert shard.read_bytes() == before
    assert loader.read_text() == "# of another release\n"
    assert verify(str(out), Access()) == told

    loader.unlink()
    with pytest.raises(NotWhole) as refused:
        repair.repair(str(out), Access())
    assert str(refused.value) == (
        f"{loader} is damaged, and this release of dataprep would write it differently from the release that made the data set. "
        "Repair it with that release, or run the job again with output.overwrite: Always."
    )
