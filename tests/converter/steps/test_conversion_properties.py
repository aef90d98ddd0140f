"""Every record is written exactly once, for any table, shards, splits and shuffle, and however the work is divided."""

import contextlib
import json
import sqlite3
import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image
from tests.builders.digits import sha256s
from tests.builders.examples import examples
from tests.builders.jobs import run_job
from tests.builders.specs import parse_job

from dataprep_api.dataset.messages import CommitResult, PlanResult
from dataprep_api.resources.job import DataPrepJob
from dataprep_converter.formats.tfrecord import records
from dataprep_converter.inputs.access import Access
from dataprep_converter.pipeline import shard_samples
from dataprep_converter.tools.verification import verify

_pq: Any = pq  # the stubs lack types for this
_ipc: Any = pa.ipc

COLUMNS = [
    {"name": "id", "type": "Int64"},
    {"name": "part", "type": "String"},
    {"name": "weight", "type": "Float64"},
    {"name": "day", "type": "String"},
]
THREE = [{"name": "train", "fraction": 0.6}, {"name": "validation", "fraction": 0.3}, {"name": "test", "fraction": 0.1}]
RULES: dict[str, dict[str, Any] | None] = {
    "none": None,
    "drawn": {"into": THREE},
    "exact": {"exact": True, "into": THREE},
    "groups": {"groupBy": "part", "into": THREE},
    "classes": {"stratifyBy": "part", "into": THREE},
    "first": {"into": [{"name": "head", "first": 5}, *THREE]},
    "count": {"into": [{"name": "few", "count": 4}, {"name": "rest"}]},
    "values": {"column": "part", "into": [{"name": "a", "values": ["a"]}, {"name": "b", "values": ["b"]}, {"name": "rest"}]},
    "times": {"column": "day", "into": [{"name": "old", "before": "2024-01-02"}, {"name": "new"}]},
    "values and fractions": {"column": "part", "seed": 3, "into": [{"name": "a", "values": ["a"]}, *THREE]},
}
TABLES = st.lists(
    st.tuples(
        st.sampled_from(["a", "b", "c", ""]),
        st.one_of(st.floats(-9, 9), st.just("wrong")),
        st.sampled_from(["2024-01-01", "2024-01-02", "never"]),
    ),
    min_size=1,
    max_size=60,
)


def a_job(folder: Path, table: list[tuple[Any, ...]], out: str, **spec: Any) -> DataPrepJob:
    lines = [",".join(map(str, (number, *row))) + "\n" for number, row in enumerate(table)]
    half = len(lines) // 2
    for name, part in (("a.csv", lines[:half]), ("b.csv", lines[half:])):
        if not (folder / name).exists():
            (folder / name).write_text("".join(part))
    written = {
        "source": {"csv": {"uris": [str(folder / "a.csv"), str(folder / "b.csv")], "columns": COLUMNS}},
        "features": [{"name": "id"}, {"name": "part"}],
        "onBadRecord": {"policy": "Quarantine"},
        "output": {"uri": str(folder / out)},
    }
    return parse_job(written | spec)


def made(job: DataPrepJob) -> tuple[PlanResult, CommitResult]:
    return run_job(job)


def places(folder: Path) -> dict[str, list[int]]:
    """Returns the ids in each file, in order."""
    found: dict[str, list[int]] = {}
    for file in verify(str(folder), Access()).files:
        parsed = (records.parse_example(payload) for _, payload in records.read([(folder / file.file).read_bytes()]))
        found[file.file] = [int(record["id"][0]) for record in parsed]
    return found


@pytest.mark.slow
@pytest.mark.parametrize("rules", RULES.values(), ids=RULES.keys())
@settings(max_examples=examples(12))
@given(table=TABLES, shards=st.integers(1, 5), shuffled=st.booleans(), limit=st.one_of(st.none(), st.integers(1, 50)))
def test_every_record_goes_to_one_place(
    rules: dict[str, Any] | None, table: list[tuple[Any, ...]], shards: int, shuffled: bool, limit: int | None
) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        spec: dict[str, Any] = {"splits": rules, "shuffle": {"seed": 1} if shuffled else None, "limit": limit}
        template = "{split}-{shard}-of-{shards}.{ext}"
        job = a_job(folder, table, "out", **spec, output={"uri": str(folder / "out"), "shards": {"count": shards}, "fileName": template})
        planned, result = made(job)

        ids = Counter(sample for found in places(folder / "out").values() for sample in found)
        bad = {json.loads(line)["uri"][-5] + str(json.loads(line)["row"]) for line in kept(folder)}
        assert max(ids.values(), default=0) <= 1
        assert result.records.in_ == min(len(table), limit or len(table)) == result.records.out + result.records.bad
        assert (len(ids), len(bad)) == (result.records.out, result.records.bad)
        assert planned.records == result.records.in_
        assert all(table[sample][1] != "wrong" for sample in ids)
        for split in planned.splits:
            assert split.expected is None or abs(split.records - split.expected) <= (split.tolerance or 0) or split.name in ("head", "few")


def kept(folder: Path) -> list[str]:
    return [line for file in (folder / "out" / "_dataprep").rglob("quarantine/*") for line in file.read_text().splitlines()]


@pytest.mark.slow
@pytest.mark.parametrize("rules", [RULES["classes"], RULES["values and fractions"]], ids=["classes", "values and fractions"])
def test_the_bytes_do_not_depend_on_tasks_and_batches(rules: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = [("abc"[n % 3], float(n) if n % 9 else "wrong", "2024-01-01") for n in range(500)]
    spec = {"splits": rules, "shuffle": {"seed": 2}, "limit": 450}
    shards = {"count": 4}
    one, other = (
        a_job(tmp_path, table, name, **spec, output={"uri": str(tmp_path / name), "shards": shards}, workers={"parallelism": parallelism})
        for name, parallelism in (("one", 1), ("other", 7))
    )
    made(one)
    monkeypatch.setattr(shard_samples, "MOST_RECORDS", 7)
    made(other)
    assert sha256s(tmp_path / "one") == sha256s(tmp_path / "other")
    assert len(sha256s(tmp_path / "one")) >= 12


def test_the_limit_is_part_of_the_run_and_its_records_are_of_the_whole(tmp_path: Path) -> None:
    table = [("a", 1.0, "2024-01-01")] * 400
    all_of_it, _ = made(a_job(tmp_path, table, "all"))
    few, _ = made(a_job(tmp_path, table, "few", limit=40))
    assert few.run_id != all_of_it.run_id
    (found,) = places(tmp_path / "few").values()
    assert len(found) == 40
    assert 10 <= sum(sample < 200 for sample in found) <= 30
    assert found == sorted(found)


def test_the_plan_says_what_was_expected_and_what_is_in_no_split(tmp_path: Path) -> None:
    table = [("ab"[n % 2], 1.0, "2024-01-01") for n in range(100)]
    rules = {"column": "part", "into": [{"name": "a", "values": ["a"], "subset": None}, {"name": "many", "first": 70}]}
    planned, _ = made(a_job(tmp_path, table, "out", splits=rules))
    assert [(split.name, split.records, split.expected, split.tolerance) for split in planned.splits] == [
        ("a", 50, None, None),
        ("many", 50, 70, 0),
    ]
    assert planned.warnings == ["the split many has 50 records; its rule asks for 70"]
    rules = {"column": "part", "into": [{"name": "a", "values": ["a"]}]}
    planned, _ = made(a_job(tmp_path, table, "other", splits=rules))
    assert planned.warnings == ["50 of 100 records are in no split"]


@pytest.mark.parametrize("fractions", [(0.8, 0.2), (0.6, 0.3, 0.1)])
@pytest.mark.parametrize("seed", range(5))
def test_drawn_fractions_are_within_four_standard_deviations(tmp_path: Path, fractions: tuple[float, ...], seed: int) -> None:
    table = [("a", 1.0, "")] * 3000
    rules = {"seed": seed, "into": [{"name": f"s{number}", "fraction": fraction} for number, fraction in enumerate(fractions)]}
    planned, _ = made(a_job(tmp_path, table, "out", splits=rules))
    for split, fraction in zip(planned.splits, fractions, strict=True):
        assert abs(split.records - 3000 * fraction) <= 4 * (3000 * fraction * (1 - fraction)) ** 0.5
        assert split.expected == round(3000 * fraction)


def test_a_split_stays_as_it_is_when_data_is_added(tmp_path: Path) -> None:
    table = [("a", 1.0, "")] * 200
    rules = {"into": THREE}
    made(a_job(tmp_path, table, "before", splits=rules))
    with (tmp_path / "b.csv").open("a") as file:
        file.writelines(f"{number},a,1.0,\n" for number in range(200, 300))
    made(a_job(tmp_path, table, "after", splits=rules))
    before, after = places(tmp_path / "before"), places(tmp_path / "after")
    for name, ids in before.items():
        assert ids == [sample for sample in after[name] if sample < 200]


@pytest.mark.parametrize(
    "rules", [RULES["drawn"], RULES["exact"], RULES["groups"], RULES["count"]], ids=["drawn", "exact", "groups", "count"]
)
def test_the_split_is_that_of_the_paths_below_the_source_and_not_of_where_it_lies(tmp_path: Path, rules: dict[str, Any]) -> None:
    table = [("abcd"[n % 4], 1.0, "") for n in range(200)]
    for name in ("here", "there"):
        (tmp_path / name).mkdir()
        made(a_job(tmp_path / name, table, "out", splits=rules, limit=150))
    assert places(tmp_path / "here" / "out") == places(tmp_path / "there" / "out")


def test_images_are_stratified_by_their_folders(tmp_path: Path) -> None:
    for kind, count in (("cat", 20), ("dog", 10)):
        (tmp_path / "photos" / kind).mkdir(parents=True)
        for number in range(count):
            Image.new("L", (2, 2)).save(tmp_path / "photos" / kind / f"{number}.png")
    half = [{"name": "a", "fraction": 0.5}, {"name": "b", "fraction": 0.5}]
    splits = {"stratifyBy": "image/class/text", "into": half}
    _, result = made(a_job(tmp_path, [], "out", source={"images": {"uris": [str(tmp_path / "photos")]}}, features=None, splits=splits))
    manifest = verify(str(tmp_path / "out"), Access())
    assert [split.label_counts["image/class/label"] for split in manifest.splits] == [{"0": 10, "1": 5}] * 2
    assert result.records.out == 30


# --- other tabular sources ------------------------------------------------------------------------------------

Row = tuple[str, float | str]
"""A part and a weight. The weight `wrong` isn't a number.

A record with this weight is bad. In sources that can't store text in the column, the weight is missing, and the record is also bad.
"""


def as_jsonl(folder: Path, name: str, table: list[Row], first: int) -> Path:
    lines = [json.dumps({"id": first + n, "part": part, "weight": weight}) for n, (part, weight) in enumerate(table)]
    (folder / f"{name}.jsonl").write_text("".join(f"{line}\n" for line in lines))
    return folder / f"{name}.jsonl"


def a_table(table: list[Row], first: int) -> pa.Table:
    """Returns the table. Weights that aren't numbers are null."""
    weights = pa.array([weight if isinstance(weight, float) else None for _, weight in table], pa.float64())
    return pa.table(
        {
            "id": pa.array(range(first, first + len(table)), pa.int64()),
            "part": pa.array([part for part, _ in table], pa.string()),
            "weight": weights,
        }
    )


def as_parquet(folder: Path, name: str, table: list[Row], first: int) -> Path:
    _pq.write_table(a_table(table, first), folder / f"{name}.parquet", row_group_size=7)
    return folder / f"{name}.parquet"


def as_arrow(folder: Path, name: str, table: list[Row], first: int) -> Path:
    made = a_table(table, first)
    with _ipc.new_file(folder / f"{name}.arrow", made.schema) as out:
        out.write_table(made, max_chunksize=5)
    return folder / f"{name}.arrow"


def as_libsvm(folder: Path, name: str, table: list[Row], first: int) -> Path:
    lines = [f"{first + n} {'abc'.find(part) + 2}:1 9:{weight}" for n, (part, weight) in enumerate(table)]
    (folder / f"{name}.svm").write_text("".join(f"{line}\n" for line in lines))
    return folder / f"{name}.svm"


TYPED = [{"name": "id", "type": "Int64"}, {"name": "part", "type": "String"}, {"name": "weight", "type": "Float64"}]
TABULAR: dict[str, tuple[Callable[[Path, str, list[Row], int], Path], dict[str, Any]]] = {
    "jsonl": (as_jsonl, {"columns": TYPED}),
    "parquet": (as_parquet, {}),
    "arrow": (as_arrow, {}),
    "libsvm": (as_libsvm, {"numFeatures": 9}),
}
"""For each kind of source, the function that writes a file, and the source's options."""


@pytest.mark.slow
@pytest.mark.parametrize("kind", [*TABULAR, "sql"])
@settings(max_examples=examples(6))
@given(
    table=st.lists(st.tuples(st.sampled_from(["a", "b", "c"]), st.one_of(st.floats(-9, 9), st.just("wrong"))), min_size=2, max_size=40),
    rules=st.sampled_from([None, *(RULES[name] for name in ("drawn", "exact", "first", "count"))]),
    shards=st.integers(1, 4),
    shuffled=st.booleans(),
    parallelism=st.integers(2, 6),
)
def test_every_record_of_any_tabular_source_goes_to_one_place_whoever_does_the_work(
    kind: str, table: list[Row], rules: dict[str, Any] | None, shards: int, shuffled: bool, parallelism: int
) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        id_name, source = a_tabular(kind, folder, table)
        spec: dict[str, Any] = {
            "source": source, "splits": rules, "shuffle": {"seed": 1} if shuffled else None, "features": [{"name": id_name}], "nulls": "Bad",
        }  # fmt: skip
        template = "{split}-{shard}-of-{shards}.{ext}"
        for workers in (1, parallelism):
            output = {"uri": str(folder / f"by{workers}"), "shards": {"count": shards}, "fileName": template}
            _, result = made(a_job(folder, table, "unused", **spec, output=output, workers={"parallelism": workers}))
            assert result.records.in_ == len(table) == result.records.out + result.records.bad

        found = Counter(
            int(records.parse_example(payload)[id_name][0])
            for file in (folder / "by1").glob("*.tfrecords")
            for _, payload in records.read([file.read_bytes()])
        )
        assert found == Counter(number for number, (_, weight) in enumerate(table) if weight != "wrong")
        assert sha256s(folder / "by1") == sha256s(folder / f"by{parallelism}")


def a_tabular(kind: str, folder: Path, table: list[Row]) -> tuple[str, dict[str, Any]]:
    """Returns the name of the column with the record numbers, and the source: two files, or a query in four parts."""
    if kind == "sql":
        with contextlib.closing(sqlite3.connect(folder / "rows.db")) as database, database:
            database.execute("CREATE TABLE rows (id INTEGER PRIMARY KEY, part TEXT, weight REAL)")
            rows = [(n, part, weight if isinstance(weight, float) else None) for n, (part, weight) in enumerate(table)]
            database.executemany("INSERT INTO rows VALUES (?, ?, ?)", rows)
        query = "SELECT id, part, weight FROM rows"
        return "id", {
            "sql": {
                "url": f"sqlite:///{folder / 'rows.db'}",
                "query": query,
                "orderBy": ["id"],
                "partitionBy": {"column": "id", "count": 4},
            }
        }
    write, options = TABULAR[kind]
    half = len(table) // 2
    files = [write(folder, "1", table[:half], 0), write(folder, "2", table[half:], half)]
    return ("label" if kind == "libsvm" else "id"), {kind: {"uris": [str(file) for file in files], **options}}
