"""Nested values (structs, lists of structs, maps) pass from every table source to every format: as nested values if the format can store
them, and as JSON otherwise."""

import json
import re
import tarfile
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.builders.jobs import run_job, verified_run
from tests.builders.specs import parse_job

from dataprep_api.dataset import run_id
from dataprep_api.dataset.report import Manifest
from dataprep_api.resources.job import DataPrepJob
from dataprep_converter.core.errors import BadData, BadSpec
from dataprep_converter.formats.tfrecord import records
from dataprep_converter.inputs.access import Access
from dataprep_converter.tools import repair
from dataprep_converter.tools.verification import verify
from dataprep_reader import open as open_data_set

_pq: Any = pq  # the module has no type stubs
_ipc: Any = pa.ipc
_arrow: Any = pa

MESSAGE = _arrow.struct([("role", pa.string()), ("content", pa.string())])
COLUMNS: dict[str, Any] = {
    "id": pa.array([1, 2, 3], pa.int64()),
    "messages": pa.array([[{"role": "user", "content": 'say "é\n"'}, {"role": "bot", "content": None}], None, []], pa.list_(MESSAGE)),
    "box": pa.array([{"x": 1, "corners": [0.5, 2.5]}, None, {"x": None, "corners": None}], _arrow.struct([("x", pa.int32()), ("corners", pa.list_(pa.float32()))])),
    "grid": pa.array([[[1], [2, 3]], None, [[], None]], pa.list_(pa.list_(pa.int64()))),
}  # fmt: skip
TABLE = pa.table(COLUMNS)
ROWS: list[dict[str, Any]] = TABLE.to_pylist()
LINES: list[dict[str, Any]] = [
    {"id": 1, "messages": [{"role": "user", "content": 'say "é\n"'}, {"role": "bot"}], "box": {"x": 1, "corners": [0.5, 2.5]}, "grid": [[1], [2, 3]]},
    {"id": 2, "messages": None, "box": None, "grid": None},
    {"id": 3, "messages": [], "box": {"x": None}, "grid": [[], None]},
]  # fmt: skip


def put(folder: Path, kind: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / f"rows.{kind}"
    if kind == "parquet":
        _pq.write_table(TABLE, file)
    elif kind == "arrow":
        with pa.OSFile(str(file), "wb") as sink, _ipc.new_file(sink, TABLE.schema) as writer:
            writer.write_table(TABLE)
    else:
        file.write_text("".join(json.dumps(line) + "\n" for line in LINES))
    return file


def a_job(folder: Path, format_: str, *, source: str = "parquet", out: str = "out", **spec: Any) -> DataPrepJob:
    file = folder / "in" / f"rows.{source}"
    if not file.exists():
        put(folder / "in", source)
    output = {"uri": str(folder / out), "format": format_, "shards": {"count": 1}, "overwrite": "IfChanged"} | spec.pop("output", {})
    return parse_job({"source": {source: {"uris": [str(file)]} | spec.pop("reading", {})}, "output": output} | spec)


def the_file(job: DataPrepJob) -> Path:
    """The only shard of the job's data set, after verification."""
    manifest = verified_run(job)
    return Path(job.spec.output.uri) / manifest.files[0].file


def table_in(file: Path) -> Any:
    return _pq.read_table(file) if file.suffix == ".parquet" else _ipc.open_file(pa.OSFile(str(file), "rb")).read_all()


@pytest.mark.parametrize("source", ["parquet", "arrow"])
@pytest.mark.parametrize("format_", ["parquet", "arrow"])
def test_a_table_keeps_its_nested_columns(tmp_path: Path, source: str, format_: str) -> None:
    made = table_in(the_file(a_job(tmp_path, format_, source=source)))
    assert made.schema.equals(TABLE.schema)
    assert made.to_pylist() == ROWS


@pytest.mark.parametrize("source", ["parquet", "arrow"])
def test_json_lines_have_the_values_of_a_table(tmp_path: Path, source: str) -> None:
    lines = the_file(a_job(tmp_path, "jsonl", source=source)).read_text(encoding="utf-8").splitlines()
    assert [json.loads(line) for line in lines] == ROWS


def test_json_lines_become_json_lines_and_tables(tmp_path: Path) -> None:
    lines = the_file(a_job(tmp_path, "jsonl", source="jsonl")).read_text(encoding="utf-8").splitlines()
    rows = [json.loads(line) for line in lines]
    assert rows[0]["messages"] == [LINES[0]["messages"][0], {"role": "bot", "content": None}]
    assert [row["box"] for row in rows] == [{"x": 1, "corners": [0.5, 2.5]}, None, {"x": None, "corners": None}]
    assert [row["grid"] for row in rows] == [line["grid"] for line in LINES]
    made = table_in(the_file(a_job(tmp_path, "parquet", source="jsonl", out="table")))
    assert made.to_pylist() == rows
    assert made.schema.field("messages").type == pa.list_(MESSAGE)


def test_another_format_has_the_json_of_lists_of_structs_and_the_fields_of_structs(tmp_path: Path) -> None:
    data = the_file(a_job(tmp_path, "tfrecord")).read_bytes()
    made = [records.parse_example(payload) for _, payload in records.read([data])]
    assert made[0]["messages"] == ['[{"role":"user","content":"say \\"é\\n\\""},{"role":"bot","content":null}]'.encode()]
    assert made[0]["box/x"] == [1]
    assert made[0]["grid"] == [b"[[1],[2,3]]"]
    assert made[1]["messages"] == []


@pytest.mark.parametrize("source", ["parquet", "arrow", "jsonl"])
def test_a_struct_that_is_a_feature_is_json(tmp_path: Path, source: str) -> None:
    job = a_job(tmp_path, "webdataset", source=source, features=[{"name": "id"}, {"name": "box"}])
    with tarfile.open(the_file(job)) as tar:
        found = {name: tar.extractfile(name).read() for name in tar.getnames()}  # type: ignore[union-attr]
    (text,) = (content for name, content in found.items() if content.startswith(b'{"x":1'))
    assert json.loads(text) == {"x": 1, "corners": [0.5, 2.5]}


@pytest.mark.parametrize("format_", ["parquet", "arrow", "jsonl", "tfrecord", "csv", "webdataset", "arrayRecord"])
@pytest.mark.parametrize("again", ["parquet", "jsonl"])
def test_a_data_set_with_nested_values_becomes_another_one(tmp_path: Path, format_: str, again: str) -> None:
    features = [{"name": name} for name in COLUMNS]
    run_job(a_job(tmp_path, format_, features=features))
    second = parse_job(
        {
            "source": {"dataset": {"uri": str(tmp_path / "out")}},
            "output": {"uri": str(tmp_path / "again"), "format": again, "shards": {"count": 1}},
        }
    )
    file = the_file(second)
    lines = file.read_bytes().splitlines() if again == "jsonl" else []
    assert ([json.loads(line) for line in lines] or table_in(file).to_pylist()) == ROWS


@pytest.mark.parametrize("format_", ["parquet", "arrow", "jsonl", "tfrecord"])
def test_the_reader_gives_json(tmp_path: Path, format_: str) -> None:
    run_job(a_job(tmp_path, format_, features=[{"name": "messages"}]))
    opened: Any = list(open_data_set(str(tmp_path / "out"), as_="arrow"))
    texts = [text for batch in opened for text in batch.column("messages").to_pylist()]
    assert json.loads(texts[0]) == ROWS[0]["messages"]
    assert texts[1:] == [None, "[]"]


def test_a_field_of_a_kept_struct_is_a_label_or_a_rule_of_splits(tmp_path: Path) -> None:
    splits = {"column": "box/x", "into": [{"name": "one", "values": ["1"]}, {"name": "rest"}]}
    job = a_job(tmp_path, "parquet", labels=[{"name": "y", "columns": ["box/x"]}], splits=splits)
    files = [Path(job.spec.output.uri) / file.file for file in verified_run(job).files]
    rows = [row for file in files for row in _pq.ParquetFile(file).read().to_pylist()]
    assert [(row["y"], row["box"]) for row in rows] == [(1, ROWS[0]["box"]), (None, None), (None, ROWS[2]["box"])]


def test_croissant_describes_only_the_other_columns(tmp_path: Path) -> None:
    run_job(a_job(tmp_path, "parquet"))
    described = json.loads((tmp_path / "out/_dataprep/croissant.json").read_bytes())
    (fields,) = (found["field"] for found in described["recordSet"] if found["@id"].startswith("records/"))
    assert [field["name"] for field in fields] == ["id"]


def test_structs_are_kept_beside_the_columns_of_hugging_face(tmp_path: Path) -> None:
    picture = _arrow.struct([("bytes", pa.binary()), ("path", pa.string())])
    columns = {"image": pa.array([{"bytes": b"\xff\xd8", "path": "a.jpg"}, None], picture), "m": COLUMNS["messages"].slice(0, 2)}
    _pq.write_table(pa.table(columns), tmp_path / "a.parquet")
    output = {"uri": str(tmp_path / "out"), "format": "parquet", "shards": {"count": 1}, "parquet": {"huggingFace": {}}}
    made = table_in(the_file(parse_job({"source": {"parquet": {"uris": [str(tmp_path / "a.parquet")]}}, "output": output})))
    assert made.to_pylist() == pa.table(columns).to_pylist()
    assert made.schema.field("image").type == picture


# --- which jobs keep structs ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "spec",
    [
        {"features": [{"name": "id"}, {"name": "x", "columns": ["box/x"]}]},
        {"transforms": [{"filter": {"where": "id > 0"}}]},
        {"reading": {"defaults": {"box/x": "0"}}},
        {"labels": [{"name": "y", "columns": ["-1"]}], "reading": {"columns": ["box", "id"]}},
    ],
    ids=["features", "transforms", "defaults", "a position"],
)
def test_a_job_that_may_name_the_fields_has_them_as_columns(tmp_path: Path, spec: dict[str, Any]) -> None:
    job = a_job(tmp_path, "parquet", **spec)
    assert "box" not in table_in(the_file(job)).column_names
    assert "structs" not in manifest_of(job).parts


@pytest.mark.parametrize("columns", [["box/x", "box"], ["box", "box/x"], ["box", "box/corners"]], ids=" ".join)
@pytest.mark.parametrize("reading", [{}, {"nested": ["box"]}], ids=["by the rule", "nested"])
def test_the_columns_of_the_source_name_a_struct_and_its_field(tmp_path: Path, columns: list[str], reading: dict[str, Any]) -> None:
    table = TABLE.slice(0, 2)
    _pq.write_table(table, tmp_path / "two.parquet")
    made = table_in(the_file(a_job(tmp_path, "parquet", reading={"uris": [str(tmp_path / "two.parquet")], "columns": columns} | reading)))
    boxes = table["box"].to_pylist()
    fields = {name: [None if box is None else box[name] for box in boxes] for name in ("x", "corners")}
    assert made.column_names == columns
    assert made.to_pydict() == {name: boxes if name == "box" else fields[name.removeprefix("box/")] for name in columns}


def test_only_a_job_that_keeps_structs_has_another_run_id(tmp_path: Path) -> None:
    kept = a_job(tmp_path, "parquet")
    run_job(kept)
    assert manifest_of(kept).parts == {"structs": 2}
    flat = a_job(tmp_path, "parquet", out="flat", reading={"columns": ["id", "messages"]})
    run_job(flat)
    assert manifest_of(flat).parts == {}


def test_a_kept_struct_may_have_nulls_in_its_lists(tmp_path: Path) -> None:
    column = pa.array([{"l": [1, None], "m": [None]}, None], _arrow.struct([("l", pa.list_(pa.int64())), ("m", pa.list_(pa.string()))]))
    _pq.write_table(pa.table({"s": column}), tmp_path / "a.parquet")
    job = parse_job(
        {
            "source": {"parquet": {"uris": [str(tmp_path / "a.parquet")]}},
            "output": {"uri": str(tmp_path / "out"), "format": "parquet", "shards": {"count": 1}},
        }
    )
    assert table_in(the_file(job)).column("s").to_pylist() == column.to_pylist()


def manifest_of(job: DataPrepJob) -> Manifest:
    (file,) = Path(job.spec.output.uri).glob("_dataprep/*/manifest.json")
    return Manifest.model_validate_json(file.read_bytes())


def made_before(job: DataPrepJob, monkeypatch: pytest.MonkeyPatch) -> Manifest:
    """Makes the data set as releases did before `structs` was added to `run_id.PARTS`."""
    with monkeypatch.context() as then:
        then.setattr(run_id, "versions", lambda _spec: {})
        return verified_run(job)


def fields_of(folder: Path) -> set[str]:
    return {feature["name"] for feature in verify(str(folder), Access(), every_record=True).features}


FLAT = {"id", "messages", "grid", "box/x", "box/corners"}


@pytest.mark.parametrize("source", ["parquet", "jsonl"])
def test_a_data_set_with_fields_is_repaired_and_extended_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: str) -> None:
    job = a_job(tmp_path, "parquet", source=source, reading={"uris": [str(tmp_path / "in")]}, output={"overwrite": "Extend"})
    before = made_before(job, monkeypatch)
    assert fields_of(tmp_path / "out") == FLAT
    (tmp_path / "out" / before.files[0].file).unlink()
    repair.repair(str(tmp_path / "out"), Access())
    assert verify(str(tmp_path / "out"), Access(), every_record=True) == before
    (tmp_path / "in" / f"sequel.{source}").write_bytes((tmp_path / "in" / f"rows.{source}").read_bytes())
    assert verified_run(job).records_out == 6
    assert fields_of(tmp_path / "out") == FLAT


@pytest.mark.parametrize("is_before", [True, False])
@pytest.mark.parametrize("lost", ["plan.json", "manifest.json"])
def test_a_lost_plan_or_manifest_is_made_again_by_its_own_rule(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lost: str, is_before: bool
) -> None:
    job = a_job(tmp_path, "parquet")
    before = made_before(job, monkeypatch) if is_before else verified_run(job)
    for file in (tmp_path / "out" / before.files[0].file, tmp_path / "out/_dataprep" / before.run_id / lost):
        file.unlink()
    repair.repair(str(tmp_path / "out"), Access(), job=job)
    assert verify(str(tmp_path / "out"), Access(), every_record=True) == before


def test_a_data_set_with_kept_structs_is_extended(tmp_path: Path) -> None:
    job = a_job(tmp_path, "jsonl", reading={"uris": [str(tmp_path / "in")]}, output={"overwrite": "Extend"})
    run_job(job)
    (tmp_path / "in/sequel.parquet").write_bytes((tmp_path / "in/rows.parquet").read_bytes())
    assert verified_run(job).records_out == 6
    assert fields_of(tmp_path / "out") == {"id", "messages", "grid", "box"}


def test_a_job_that_had_the_fields_is_told_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = made_before(a_job(tmp_path, "parquet"), monkeypatch)
    planned, _ = run_job(a_job(tmp_path, "parquet"))
    (told,) = planned.warnings
    assert told == (
        f"the data set of run {before.run_id}, which this job replaces, may have the fields of structs as columns. "
        "Now the structs are columns; list the fields in features to have them as before"
    )
    assert fields_of(tmp_path / "out") == {"id", "messages", "grid", "box"}


# --- lists with nulls and structs, by the field `nested` ------------------------------------------------------------


def of_parquet(folder: Path, format_: str = "parquet", reading: dict[str, Any] | None = None, **columns: Any) -> DataPrepJob:
    """A job whose source is a Parquet file with these columns."""
    _pq.write_table(pa.table(columns), folder / "a.parquet")
    return parse_job(
        {
            "source": {"parquet": {"uris": [str(folder / "a.parquet")]} | (reading or {})},
            "output": {"uri": str(folder / "out"), "format": format_, "shards": {"count": 1}},
        }
    )


def of_lines(folder: Path, text: str, format_: str = "jsonl", **reading: Any) -> DataPrepJob:
    """A job whose source is a JSON Lines file."""
    (folder / "a.jsonl").write_text(text)
    return parse_job(
        {
            "source": {"jsonl": {"uris": [str(folder / "a.jsonl")]} | reading},
            "output": {"uri": str(folder / "out"), "format": format_, "shards": {"count": 1}},
        }
    )


@pytest.mark.parametrize(
    ("format_", "kind"), [("parquet", pa.list_(pa.int64())), ("arrow", pa.list_(pa.int64())), ("parquet", pa.list_(pa.int8(), 2))]
)
def test_a_list_with_nulls_is_kept_if_the_job_asks_for_it(tmp_path: Path, format_: str, kind: Any) -> None:
    column = pa.array([[1, None], None, [3, 4]], kind)
    made = table_in(the_file(of_parquet(tmp_path, format_, {"nested": ["l"]}, l=column)))
    assert made.column("l").combine_chunks().equals(column)


def test_a_list_with_nulls_is_json_in_another_format(tmp_path: Path) -> None:
    job = of_parquet(tmp_path, "tfrecord", {"nested": ["l"]}, l=pa.array([[1.5, None]]))
    made = [records.parse_example(payload) for _, payload in records.read([the_file(job).read_bytes()])]
    assert made == [{"l": [b"[1.5,null]"]}]


def test_lists_with_nulls_of_json_lines_are_kept_if_the_job_asks_for_it(tmp_path: Path) -> None:
    text = '{"l": [1, null], "o": {"m": [null, "x"]}}\n{"l": [], "o": null}\n'
    job = of_lines(tmp_path, text, nested=["l", "o/m"], columns=[{"name": "k", "type": "Int64"}])
    lines = [json.loads(line) for line in the_file(job).read_bytes().splitlines()]
    assert lines == [{"k": None, "l": [1, None], "o/m": [None, "x"]}, {"k": None, "l": [], "o/m": None}]


def test_a_struct_is_kept_as_json_if_the_job_asks_for_it(tmp_path: Path) -> None:
    job = of_parquet(tmp_path, "tfrecord", {"nested": ["s"]}, s=pa.array([{"a": 1, "b": "x"}]), t=pa.array([{"a": 2}]))
    made = [records.parse_example(payload) for _, payload in records.read([the_file(job).read_bytes()])]
    assert made == [{"s": [b'{"a":1,"b":"x"}'], "t/a": [2]}]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("n", r"source\.parquet\.nested: the column 'n' of .*a\.parquet is int64, which is neither a struct nor a list\."),
        ("lst", r"source\.parquet\.nested: there is no column 'lst' in .*a\.parquet\. Did you mean 'list'\?"),
    ],
)
def test_a_column_that_is_not_nested_is_refused(tmp_path: Path, name: str, message: str) -> None:
    with pytest.raises(BadSpec, match=message):
        run_job(of_parquet(tmp_path, reading={"nested": [name]}, n=pa.array([1]), list=pa.array([[1]])))


@pytest.mark.parametrize("text", ['{"a": 1, "b": 2}\n', '{"b": null}\n'])
def test_a_key_that_is_not_nested_is_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(
        BadSpec, match=r"source\.jsonl\.nested: the key 'a' is neither an object nor a list in the first records of .*a\.jsonl"
    ):
        run_job(of_lines(tmp_path, text, nested=["a"], columns=[{"name": "b", "type": "Int64"}]))


def test_structs_and_their_fields_decide_which_records_are_duplicates(tmp_path: Path) -> None:
    columns: dict[str, Any] = {"s": pa.array([{"l": [1], "k": 1}, {"l": [1], "k": 1}, {"l": [2], "k": 1}]), "n": pa.array([1, 2, 3])}
    for unique, expected in (("s", [1, 3]), ("s/k", [1])):
        (tmp_path / unique).mkdir(parents=True)
        spec = of_parquet(tmp_path / unique, **columns).spec.model_dump(mode="json", by_alias=True, exclude_unset=True)
        job = parse_job({"deduplicate": {"columns": [unique]}} | spec)
        assert [row["n"] for row in table_in(the_file(job)).to_pylist()] == expected


@pytest.mark.parametrize(
    ("column", "line"),
    [
        (pa.array([None, [{"k": 1}]]), 'l has no value, and mds has no null for this feature; add defaults: {l: "[]"} to source.parquet'),
        (pa.array([None, [("k", 1)]], pa.map_(pa.string(), pa.int64())), 'add defaults: {l: "{}"} to source.parquet'),
    ],
    ids=["list", "map"],
)
def test_a_null_names_a_default_that_is_json(tmp_path: Path, column: Any, line: str) -> None:
    with pytest.raises(BadData, match=re.escape(line)):
        run_job(of_parquet(tmp_path, "mds", l=column))


def test_a_default_of_a_nested_column_is_json(tmp_path: Path) -> None:
    column = pa.array([None, [{"k": 1}]], pa.list_(_arrow.struct([("k", pa.int64())])))
    job = of_parquet(tmp_path, "mds", {"defaults": {"l": '[{"k": 7}]'}}, l=column)
    run_job(job)
    again = parse_job(
        {"source": {"dataset": {"uri": str(tmp_path / "out")}}, "output": {"uri": str(tmp_path / "again"), "format": "parquet"}}
    )
    assert table_in(the_file(again)).to_pylist() == [{"l": [{"k": 7}]}, {"l": [{"k": 1}]}]
    with pytest.raises(
        BadSpec,
        match=r"source\.parquet\.defaults: the default '7' of 'l' is not the JSON of list<item: struct<k: int64>>: expected list<item: struct<k: int64>>, got int\.",
    ):
        run_job(of_parquet(tmp_path, "mds", {"defaults": {"l": "7"}}, l=column))


# --- what is refused ------------------------------------------------------------------------------------------------


def test_files_whose_nested_types_differ_are_both_named(tmp_path: Path) -> None:
    for name, kind in (("a", pa.int64()), ("b", pa.string())):
        column = pa.array([[{"k": None}]], pa.list_(_arrow.struct([("k", kind)])))
        _pq.write_table(pa.table({"l": column}), tmp_path / f"{name}.parquet")
    job = parse_job({"source": {"parquet": {"uris": [str(tmp_path / "*.parquet")]}}, "output": {"uri": str(tmp_path / "out")}})
    with pytest.raises(BadSpec, match=r"b\.parquet: the column 'l' is list<.*k: string.*, but list<.*k: int64.* in .*a\.parquet"):
        run_job(job)


def test_a_map_with_a_key_twice_is_a_bad_record(tmp_path: Path) -> None:
    column = pa.array([[("k", 1), ("k", 2)]], pa.map_(pa.string(), pa.int64()))
    _pq.write_table(pa.table({"m": column}), tmp_path / "a.parquet")
    job = parse_job({"source": {"parquet": {"uris": [str(tmp_path / "a.parquet")]}}, "output": {"uri": str(tmp_path / "out")}})
    with pytest.raises(BadData, match="column 'm' has a map with the key 'k' twice"):
        run_job(job)


def test_a_map_with_text_that_is_not_utf8_is_a_bad_record(tmp_path: Path) -> None:
    texts = pa.array([b"\xff", b"k"]).view(pa.string())
    for name, maps in (("keys", (texts, pa.array([1, 2]))), ("values", (pa.array(["a", "b"]), texts))):
        _pq.write_table(pa.table({"m": _arrow.MapArray.from_arrays([0, 1, 2], *maps)}), tmp_path / f"{name}.parquet")
        source = {"parquet": {"uris": [str(tmp_path / f"{name}.parquet")]}}
        job = parse_job({"source": source, "output": {"uri": str(tmp_path / name)}, "onBadRecord": {"policy": "Skip", "maxFraction": 0.5}})
        assert verified_run(job).bad == 1


def test_a_key_that_the_first_records_lack_is_named(tmp_path: Path) -> None:
    file = tmp_path / "a.jsonl"
    file.write_text('{"l": [{"a": 1}]}\n' + " " * (1 << 20) + "\n" + '{"l": [{"a": 2, "b": {"c": 3}}]}\n')
    job = parse_job({"source": {"jsonl": {"uris": [str(file)]}}, "output": {"uri": str(tmp_path / "out")}})
    with pytest.raises(BadData, match="the key 'l/b' is no column"):
        run_job(job)


def test_values_of_several_types_in_an_object_are_named(tmp_path: Path) -> None:
    file = tmp_path / "a.jsonl"
    file.write_text('{"l": [{"a": 1}, {"a": "x"}]}\n')
    job = parse_job({"source": {"jsonl": {"uris": [str(file)]}}, "output": {"uri": str(tmp_path / "out")}})
    with pytest.raises(
        BadSpec, match=r"line 1: 'l' can't be read: a has values of several types: Int64, String; give source\.jsonl\.columns"
    ):
        run_job(job)
