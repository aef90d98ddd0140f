"""The output of `plan --dry-run` for people: files, records, splits with their classes, and likely mistakes. The command writes nothing."""

from pathlib import Path
from typing import Any

import pytest
from PIL import Image
from tests.builders.jobs import run_job
from tests.builders.specs import parse_job

from dataprep_converter.cli import plan_text
from dataprep_converter.inputs.access import Access
from dataprep_converter.tools.plan_preview import Preview, preview

KINDS = ("setosa", "versicolor", "virginica")
HALF_AND_HALF = {"into": [{"name": "train", "first": 30}, {"name": "test"}]}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def a_csv(rows: list[str], header: str = "length,kind") -> dict[str, Any]:
    Path("in.csv").write_text("\n".join([header, *rows]) + "\n")
    return {"csv": {"uris": ["in.csv"], "header": True}}


def seen(source: dict[str, Any], **fields: Any) -> Preview:
    return preview(parse_job({"source": source, "labels": [{"name": "kind"}], "output": {"uri": "out"}} | fields), Access())


def text_of(shown: Preview) -> list[str]:
    return list(plan_text.lines(shown.result, shown))[1:]


def sorted_kinds(each: int) -> list[str]:
    return [f"{number % 7}.5,{kind}" for kind in KINDS for number in range(each)]


def test_splits_show_their_classes_and_a_sorted_input_is_told() -> None:
    shown = seen(a_csv(sorted_kinds(20)), splits=HALF_AND_HALF)
    assert text_of(shown) == [
        "reads   1 file, 60 records, 800 bytes",
        "writes  2 shards in 1 task: tfrecord at out",
        "",
        "split  records  expected  shards",
        "train       30    30 ± 0       1",
        "test        30         -       1",
        "",
        "kind: 3 classes",
        "class       train  test  all",
        "setosa         20     0   20",
        "versicolor     10    10   20",
        "virginica       0    20   20",
        "",
        "warning: the class virginica of kind is not in the counted records of the split train",
    ]
    assert not Path("out").exists()


def test_a_split_of_one_class_is_told() -> None:
    rules = {"into": [{"name": "train", "first": 40}, {"name": "test"}]}
    assert seen(a_csv(sorted_kinds(20)), splits=rules).mistakes[0] == (
        "all 20 counted records of the split test have the class virginica of kind: if the input is sorted by class, divide it by "
        "fractions, or set stratifyBy"
    )


def test_classes_of_folders_are_counted_by_name(folder: Path) -> None:
    for number in range(3):
        for kind in ("cat", "dog")[: 1 + (number > 0)]:
            (folder / "in" / kind).mkdir(parents=True, exist_ok=True)
            Image.new("RGB", (4, 4)).save(folder / "in" / kind / f"{number}.png")
    shown = seen({"images": {"uris": ["in"]}}, labels=None)
    assert (shown.files, shown.classes) == (5, {"image/class/label": {"train": {"cat": 3, "dog": 2}}})
    assert text_of(shown)[-4:] == ["image/class/label: 2 classes", "class  train", "cat        3", "dog        2"]


@pytest.mark.parametrize(
    ("rows", "header", "said"),
    [
        ([f"{n},{KINDS[n % 3]}" for n in range(30)], "id,kind", "column id has a different value in each of the first 30 records"),
        ([f"1,{KINDS[n % 3]}" for n in range(30)], "a,kind", "column a has the same value in the first 30 records"),
        ([f"{n % 4},k{n}" for n in range(150)], "a,kind", "the label kind has 150 different values in 150 records: is it a class?"),
        ([f"{n % 4},{KINDS[n % 2]}" for n in range(30)] + ["1,odd"], "a,kind", "the class odd of kind has a single record"),
    ],
    ids=["id", "constant", "many classes", "single"],
)  # fmt: skip
def test_likely_mistakes_are_told(rows: list[str], header: str, said: str) -> None:
    assert [mistake for mistake in seen(a_csv(rows, header)).mistakes if mistake.startswith(said)]


def test_records_that_will_fail_are_told() -> None:
    columns = [{"name": "a", "type": "Float32"}, {"name": "kind", "type": "String"}]
    source = a_csv(["1,x", "two,y"], "a,kind")
    source["csv"]["columns"] = columns
    said = "1 of the first 2 records don't fit, the first: line 3: 'two' is not a Float32 (column 'a'); see onBadRecord"
    assert said in seen(source).mistakes
    assert said not in seen(source, onBadRecord={"policy": "Skip"}).mistakes


def test_an_output_that_the_job_would_refuse_is_told() -> None:
    source = a_csv(sorted_kinds(2))
    run_job(parse_job({"source": source, "labels": [{"name": "kind"}], "output": {"uri": "out"}}))
    before = sorted(str(path) for path in Path("out").rglob("*"))
    assert "holds the finished data set of run" in seen(source, limit=3).mistakes[0]
    assert seen(source, limit=3, output={"uri": "out", "overwrite": "Always"}).mistakes == []
    assert sorted(str(path) for path in Path("out").rglob("*")) == before


def test_many_splits_fold_at_80_columns() -> None:
    rules = {"into": [{"name": f"part-number-{n}", "fraction": 0.1} for n in range(10)]}
    shown = text_of(seen(a_csv(sorted_kinds(20)), splits=rules))
    assert [line for line in shown if len(line) > 80 and not line.startswith("warning")] == []
    assert sum(line.startswith("class ") for line in shown) == 3
