"""A null is a value: jobs keep nulls in formats that have a null. For all other formats, the error names the column, the record and the
line to add to the job."""

import io
import json
import tarfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from array_record.python.array_record_module import ArrayRecordReader  # type: ignore[import-untyped]  # no types
from tests.builders.jobs import output_of, run_job, verified_run
from tests.builders.specs import parse_job

from dataprep_api.dataset import run_id
from dataprep_api.dataset.report import Manifest
from dataprep_api.resources.job import DataPrepJob
from dataprep_converter.core.errors import BadData, BadSpec
from dataprep_converter.formats.tfrecord import records
from dataprep_converter.inputs.access import Access
from dataprep_converter.pipeline import shard_samples
from dataprep_converter.tools import repair
from dataprep_converter.tools.verification import verify

_pq: Any = pq  # the module has no type stubs

# The columns have their nulls in different rows: the first, a middle or the last row.
COLUMNS: dict[str, Any] = {
    "i": pa.array([None, 2, 3, 4, 5], pa.int64()),
    "f": pa.array([0.5, 1.5, 2.5, 3.5, None], pa.float64()),
    "b": pa.array([True, None, False, True, False]),
    "s": pa.array(["x", "", None, "y", "z"]),
    "v": pa.array([[1, 2], [3, 4], [5, 6], None, [7, 8]], pa.list_(pa.float32(), 2)),
    "u": pa.array([[1, 2], None, [5, 6], [3, 4], [7, 8]], pa.list_(pa.uint8(), 2)),
    "l": pa.array([None, [], [1], [2, 3], [4]], pa.list_(pa.int64())),
    "w": pa.array([["a"], [], ["b", ""], ["c"], None], pa.list_(pa.string())),
    "n": pa.array([0, 1, 2, 3, 4], pa.int64()),
}
ROWS: list[dict[str, Any]] = pa.table(COLUMNS).to_pylist()


def a_job(folder: Path, format_: str, columns: str = "ifbsvulwn", **spec: Any) -> DataPrepJob:
    """A job whose source is a Parquet file with these columns."""
    file = folder / "in" / "rows.parquet"
    if not file.exists():
        file.parent.mkdir(parents=True)
        _pq.write_table(pa.table(COLUMNS), file)
    source = {"uris": [str(file)], "columns": list(columns)} | spec.pop("parquet", {})
    output = {"uri": str(folder / "out"), "format": format_, "shards": {"count": 1}, "overwrite": "IfChanged"} | spec.pop("output", {})
    return parse_job({"source": {"parquet": source}, "output": output} | spec)


def the_file(job: DataPrepJob) -> Path:
    """The only shard of the job's data set, after verification."""
    folder = output_of(job)
    (file,) = verify(str(folder), Access(), every_record=True).files
    return folder / file.file


# --- formats with a null ------------------------------------------------------------------------------------------


def test_parquet_has_every_null_in_its_place(tmp_path: Path) -> None:
    assert _pq.read_table(the_file(a_job(tmp_path, "parquet"))).to_pylist() == ROWS


def test_arrow_has_every_null_in_its_place(tmp_path: Path) -> None:
    with pa.ipc.open_file(str(the_file(a_job(tmp_path, "arrow")))) as file:
        table = file.read_all()
    assert [{name: _as_list(value) for name, value in row.items()} for row in table.to_pylist()] == ROWS


def _as_list(value: Any) -> Any:
    return value.tolist() if isinstance(value, np.ndarray) else value


def test_jsonl_has_null_and_an_empty_text_stays_one(tmp_path: Path) -> None:
    lines = the_file(a_job(tmp_path, "jsonl")).read_text().splitlines()
    assert [json.loads(line) for line in lines] == ROWS
    assert lines[0] == '{"i":null,"f":0.5,"b":true,"s":"x","v":[1.0,2.0],"u":[1,2],"l":null,"w":["a"],"n":0}'


def test_csv_has_empty_cells_and_an_empty_text_stays_one(tmp_path: Path) -> None:
    assert the_file(a_job(tmp_path, "csv", "ifbsvun")).read_text() == (
        "i,f,b,s,v_0,v_1,u_0,u_1,n\n"
        ",0.5,true,x,1.0,2.0,1,2,0\n"
        '2,1.5,,"",3.0,4.0,,,1\n'
        "3,2.5,false,,5.0,6.0,5,6,2\n"
        "4,3.5,true,y,,,3,4,3\n"
        "5,,false,z,7.0,8.0,7,8,4\n"
    )  # fmt: skip


# A Feature without a value, as proto3 encodes `Example(features={"f": Feature()})`; the other Features have a value.
EMPTY = {name: bytes.fromhex("0a050a01") + name.encode() + bytes.fromhex("1200") for name in "ifbsvlw"}


@pytest.mark.parametrize("format_", ["tfrecord", "sequenceFile"])
def test_an_example_has_a_feature_without_a_value(tmp_path: Path, format_: str) -> None:
    data = the_file(a_job(tmp_path, format_, "ifbsvlwn")).read_bytes()
    if format_ == "tfrecord":
        examples = [payload for _, payload in records.read([data])]
        found = [{name for name, empty in EMPTY.items() if empty in example} for example in examples]
        assert found == [{name for name, value in row.items() if name in EMPTY and value is None} for row in ROWS]
    assert {name: data.count(empty) for name, empty in EMPTY.items()} == dict.fromkeys(EMPTY, 1)


def test_array_record_holds_the_examples_of_tfrecord(tmp_path: Path) -> None:
    reader = ArrayRecordReader(str(the_file(a_job(tmp_path / "a", "arrayRecord", "ifbsvlwn"))))
    data = the_file(a_job(tmp_path / "t", "tfrecord", "ifbsvlwn")).read_bytes()
    assert list(reader.read_all()) == [bytes(payload) for _, payload in records.read([data])]


def test_a_sample_of_webdataset_has_no_member_for_a_null(tmp_path: Path) -> None:
    with tarfile.open(the_file(a_job(tmp_path, "webdataset"))) as archive:
        names = archive.getnames()
    members = {
        "i": "i.cls",
        "f": "f.json",
        "b": "b.cls",
        "s": "txt",
        "v": "v.npy",
        "u": "u.npy",
        "l": "l.json",
        "w": "w.json",
        "n": "n.cls",
    }
    found = [{name.partition(".")[2] for name in names if name.startswith(f"00000000000{row}.")} for row in range(5)]
    assert found == [{member for name, member in members.items() if row[name] is not None} for row in ROWS]


def test_a_sample_of_webdataset_needs_a_value(tmp_path: Path) -> None:
    with pytest.raises(BadData) as refused:
        run_job(a_job(tmp_path, "webdataset", "i"))
    assert str(refused.value) == (
        f"{tmp_path}/in/rows.parquet, record 0: it has no value in any feature, and webdataset needs at least one. "
        "Set onBadRecord.policy: Skip to leave such records out."
    )
    assert verified_run(a_job(tmp_path, "webdataset", "i", onBadRecord={"policy": "Skip"})).bad == 1


def test_a_record_of_dl4j_has_its_own_null(tmp_path: Path) -> None:
    data = the_file(a_job(tmp_path, "sequenceFile", "is", output={"sequenceFile": {"value": "Record"}})).read_bytes()
    # int32 values | type 6 (null) | type 7 (text), "x"     and     type 5 (long), 3 | type 6
    assert data.count(bytes.fromhex("00000002000600070178")) == 1
    assert data.count(bytes.fromhex("00000002000500000000000000030006")) == 1


@pytest.mark.parametrize("format_", ["parquet", "arrow", "jsonl", "csv", "tfrecord", "webdataset"])
def test_a_data_set_with_nulls_is_a_source(tmp_path: Path, format_: str) -> None:
    columns = "ifbsn" if format_ == "csv" else "ifbsvn"
    made = output_of(a_job(tmp_path, format_, columns))
    job = parse_job({"source": {"dataset": {"uri": str(made)}}, "output": {"uri": str(tmp_path / "again"), "format": "parquet"}})
    found = _pq.read_table(the_file(job)).to_pylist()
    assert [{name: row[name] for name in columns} for row in found] == [{name: row[name] for name in columns} for row in ROWS]


@pytest.mark.parametrize("format_", ["parquet", "arrow", "jsonl", "tfrecord", "webdataset"])
def test_a_null_list_of_a_data_set_is_read_as_an_empty_one(tmp_path: Path, format_: str) -> None:
    made = output_of(a_job(tmp_path, format_, "ln"))
    job = parse_job({"source": {"dataset": {"uri": str(made)}}, "output": {"uri": str(tmp_path / "again"), "format": "parquet"}})
    assert [row["l"] for row in _pq.read_table(the_file(job)).to_pylist()] == [[], [], [1], [2, 3], [4]]


def test_csv_with_one_column_has_quotes_for_a_null(tmp_path: Path) -> None:
    assert the_file(a_job(tmp_path, "csv", "i")).read_text() == 'i\n""\n2\n3\n4\n5\n'


def test_types_are_converted_around_nulls(tmp_path: Path) -> None:
    features = [
        {"name": "i", "dtype": "int32"},
        {"name": "f", "dtype": "float16"},
        {"name": "v", "dtype": "float64"},
        {"name": "l", "dtype": "int8"},
    ]
    job = a_job(tmp_path, "parquet", "ifvln", features=features, labels=[{"name": "b", "columns": ["i"], "numClasses": 6}])
    table = _pq.read_table(the_file(job))
    assert table.select(["i", "f", "v", "l"]).to_pylist() == [{name: row[name] for name in "ifvl"} for row in ROWS]
    assert table["b"].to_pylist() == [None, 2, 3, 4, 5]
    assert (table["i"].type, table["f"].type) == (pa.int32(), pa.float16())


# --- formats without a null ---------------------------------------------------------------------------------------

REFUSED: dict[str, tuple[str, str, dict[str, Any], int, str]] = {
    "mds": ("mds", "fn", {}, 4, 'f has no value, and mds has no null for this feature; add defaults: {f: "NaN"} to source.parquet'),
    "mds, text": ("mds", "sn", {}, 2, 's has no value, and mds has no null for this feature; add defaults: {s: ""} to source.parquet'),
    "mds, lists": ("mds", "ln", {}, 0, 'l has no value, and mds has no null for this feature; add defaults: {l: "[]"} to source.parquet'),
    "mds, tensors": ("mds", "vn", {}, 3, "v has no value, and mds has no null for this feature; add fillNulls: {columns: [v]} to transforms"),
    "npz": ("npz", "in", {}, 0, 'i has no value, and npz has no null for this feature; add defaults: {i: "0"} to source.parquet'),
    "recordioProtobuf": (
        "recordioProtobuf", "bn", {}, 1,
        'b has no value, and recordioProtobuf has no null for this feature; add defaults: {b: "false"} to source.parquet',
    ),
    "dl4jDataset": (
        "dl4jDataset", "f", {}, 4, 'f has no value, and dl4jDataset has no null for this feature; add defaults: {f: "NaN"} to source.parquet',
    ),
    "sequenceFile, primitives": (
        "sequenceFile", "f", {"output": {"sequenceFile": {"value": "Feature"}}}, 4,
        'f has no value, and sequenceFile has no null for this feature; add defaults: {f: "NaN"} to source.parquet',
    ),
    "sequenceFile, keys": (
        "sequenceFile", "in", {"output": {"sequenceFile": {"key": "i"}}}, 0,
        'i has no value, and sequenceFile has no null for this feature; add defaults: {i: "0"} to source.parquet',
    ),
    "mapFile, vectors": (
        "mapFile", "v", {}, 3, "v has no value, and mapFile has no null for this feature; add fillNulls: {columns: [v]} to transforms",
    ),
    "raw tensors": (
        "tfrecord", "un", {}, 1, "u has no value, and tfrecord has no null for a tensor that is stored Raw; set encoding: Values",
    ),
    "vectors": (
        "parquet", "ifn", {"features": [{"name": "x", "columns": ["n", "f"]}]}, 4,
        'f has no value, and a vector can\'t have a null among its values; add defaults: {f: "NaN"} to source.parquet',
    ),
    "vectors of text": (
        "parquet", "sn", {"features": [{"name": "x", "columns": ["s", "s"]}]}, 2,
        's has no value, and a vector can\'t have a null among its values; add defaults: {s: ""} to source.parquet',
    ),
    "nulls: Bad": ("parquet", "fn", {"nulls": "Bad"}, 4, "column 'f' has no value and no default"),
}  # fmt: skip


@pytest.mark.parametrize(("format_", "columns", "spec", "record", "reason"), REFUSED.values(), ids=REFUSED.keys())
def test_what_has_no_null_is_refused_by_name(
    tmp_path: Path, format_: str, columns: str, spec: dict[str, Any], record: int, reason: str
) -> None:
    with pytest.raises(BadData) as refused:
        run_job(a_job(tmp_path, format_, columns, **spec))
    manifest = verified_run(a_job(tmp_path, format_, columns, onBadRecord={"policy": "Skip"}, **spec))
    assert (manifest.records_out, manifest.bad) == (4, 1)
    column = reason.partition(" ")[0]
    counted = "" if "nulls" in spec else f"1 of the 5 records of {manifest.files[0].file} has no {column}. "
    assert str(refused.value) == (
        f"{tmp_path}/in/rows.parquet, record {record}: {reason}. {counted}Set onBadRecord.policy: Skip to leave such records out."
    )


def the_fault(folder: Path, table: pa.Table, **spec: Any) -> str:
    """The error message of a job that writes a table to `mds`, without the part that gives the first fault's place and reason."""
    _pq.write_table(table, folder / "a.parquet")
    job = {"source": {"parquet": {"uris": [str(folder / "a.parquet")]}}, "output": {"uri": str(folder / "out"), "format": "mds"}}
    with pytest.raises(BadData) as refused:
        run_job(parse_job(job | spec))
    return str(refused.value).partition(". ")[2]


def test_the_nulls_of_all_columns_are_counted(tmp_path: Path) -> None:
    table = pa.table({"fare": [None, 1.5, None], "n": [1, 2, 3], "tip": pa.array([None, 1, 2])})
    assert the_fault(tmp_path, table) == (
        "2 of the 3 records of train/shard.00000.mds have no fare, 1 has no tip. "
        'For all these columns, add defaults: {fare: "NaN", tip: "0"} to source.parquet. '
        "Set onBadRecord.policy: Skip to leave such records out."
    )


def test_nulls_are_counted_beyond_the_batch_of_the_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = pa.table({"n": [1, None, 3, None, None, 6]})
    monkeypatch.setattr(shard_samples, "MOST_RECORDS", 1)
    found = the_fault(tmp_path, table)
    assert found.startswith("3 of the 6 records of train/shard.00000.mds have no n. Set onBadRecord.policy")


def test_nulls_are_counted_in_the_first_batches_of_a_large_shard(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = pa.table({"n": pa.array([1, None] * 100)})
    monkeypatch.setattr(shard_samples, "MOST_RECORDS", 2)
    found = the_fault(tmp_path, table)
    assert found.startswith("16 of the first 32 records of train/shard.00000.mds have no n. Set onBadRecord.policy")


def test_only_the_nulls_that_the_format_lacks_are_counted(tmp_path: Path) -> None:
    table = pa.table({"n": [None, 1, 2], "s": [None, None, "x"]})
    output = {"uri": str(tmp_path / "out"), "format": "parquet"}
    found = the_fault(tmp_path, table, output=output, features=[{"name": "v", "columns": ["n", "n"]}, {"name": "s"}])
    assert "1 of the 3 records of" in found
    assert "have no s" not in found


def test_a_key_without_a_value_is_refused_by_name(tmp_path: Path) -> None:
    _pq.write_table(pa.table({"k": ["a", None], "n": [1, 2]}), tmp_path / "a.parquet")
    output = {"uri": str(tmp_path / "out"), "format": "webdataset", "webdataset": {"key": "k"}}
    with pytest.raises(
        BadData, match=r'record 1: k has no value, and webdataset has no null for this feature; add defaults: \{k: ""\} to source'
    ):
        run_job(parse_job({"source": {"parquet": {"uris": [str(tmp_path / "a.parquet")]}}, "output": output}))


def test_the_default_of_a_message_is_accepted(tmp_path: Path) -> None:
    defaults = {"i": "0", "f": "NaN", "b": "false", "s": "", "l": "[]", "w": "[]"}
    job = a_job(tmp_path, "jsonl", "ifbslwn", parquet={"defaults": defaults}, output={"jsonl": {"nonFinite": "Literal"}})
    lines = the_file(job).read_text().splitlines()
    assert lines[0] == '{"i":0,"f":0.5,"b":true,"s":"x","l":[],"w":["a"],"n":0}'
    assert lines[4] == '{"i":5,"f":NaN,"b":false,"s":"z","l":[4],"w":[],"n":4}'


def test_nan_stands_for_nulls_in_an_array(tmp_path: Path) -> None:
    job = a_job(tmp_path, "npz", "fn", parquet={"defaults": {"f": "NaN"}})
    with np.load(io.BytesIO(the_file(job).read_bytes())) as arrays:
        assert np.array_equal(arrays["features/f.npy"], [0.5, 1.5, 2.5, 3.5, np.nan], equal_nan=True)


# --- the policy, and jobs of earlier releases ---------------------------------------------------------------------


def versions(source: dict[str, Any], **spec: Any) -> dict[str, int]:
    parts = run_id.versions(parse_job({"source": source, "output": {"uri": "out"}} | spec).spec)
    # The planner leaves out `int96` if the Parquet files have no INT96 times.
    return {name: version for name, version in parts.items() if name != "int96"}


PARQUET = {"parquet": {"uris": ["in"]}}
SKIP = {"onBadRecord": {"policy": "Skip"}}


@pytest.mark.parametrize(
    ("source", "spec", "expected"),
    [
        (PARQUET, {}, {}),
        (PARQUET, {"nulls": "Keep"}, {}),
        (PARQUET, {"nulls": "Bad"}, {}),
        (PARQUET, SKIP, {"nulls": 2}),
        (PARQUET, {"onBadRecord": {"policy": "Quarantine"}, "nulls": "Keep"}, {"nulls": 2}),
        (PARQUET, SKIP | {"nulls": "Bad"}, {}),
        ({"text": {"uris": ["in"]}}, SKIP, {"textUnits": 2}),
        ({"text": {"uris": ["in"], "hivePartitions": "Infer"}}, SKIP, {"nulls": 2, "textUnits": 2}),
        ({"images": {"uris": ["in"], "check": "None"}}, SKIP, {}),
        ({"images": {"uris": ["in"], "check": "None"}}, SKIP | {"transforms": [{"map": {"callable": "a:b"}}]}, {"nulls": 2}),
    ],
    ids=str,
)
def test_only_jobs_that_left_nulls_out_have_the_part(source: dict[str, Any], spec: dict[str, Any], expected: dict[str, int]) -> None:
    assert versions(source, **spec) == expected


def test_keep_is_the_default_and_only_bad_changes_the_run_id(tmp_path: Path) -> None:
    default, keep, bad = (
        run_id.run_id(a_job(tmp_path, "parquet", **spec).spec, inputs_sha256="") for spec in ({}, {"nulls": "Keep"}, {"nulls": "Bad"})
    )
    assert default == keep
    assert bad != default


def made_before(job: DataPrepJob, monkeypatch: pytest.MonkeyPatch) -> Manifest:
    """The data set as made by a release without the part `nulls`."""
    with monkeypatch.context() as then:
        then.setattr(run_id, "versions", lambda _spec: {})
        return verified_run(job)


def test_a_job_that_left_nulls_out_keeps_them_now_and_is_told_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = made_before(a_job(tmp_path, "parquet", "in", **SKIP), monkeypatch)
    planned, _ = run_job(a_job(tmp_path, "parquet", "in", **SKIP))
    (told,) = planned.warnings
    assert told == (
        f"the data set of run {before.run_id}, which this job replaces, was made without the records that have nulls. "
        "Now these records are kept if the format has nulls; set nulls: Bad to leave them out as before"
    )
    assert (before.records_out, verify(str(tmp_path / "out"), Access()).records_out) == (4, 5)
    planned, _ = run_job(a_job(tmp_path, "parquet", "fn", **SKIP))
    assert planned.warnings == []


@pytest.mark.parametrize(("nulls", "records"), [("Keep", 5), ("Bad", 4)])
def test_a_job_that_has_decided_is_not_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, nulls: str, records: int) -> None:
    made_before(a_job(tmp_path, "parquet", "in", **SKIP), monkeypatch)
    planned, _ = run_job(a_job(tmp_path, "parquet", "in", **SKIP, nulls=nulls))
    assert (planned.warnings, verify(str(tmp_path / "out"), Access()).records_out) == ([], records)


def test_a_data_set_without_its_nulls_is_repaired_and_extended_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    job = a_job(tmp_path, "parquet", "in", parquet={"uris": [str(tmp_path / "in")]}, output={"overwrite": "Extend"}, **SKIP)
    before = made_before(job, monkeypatch)
    (tmp_path / "out" / before.files[0].file).unlink()
    repair.repair(str(tmp_path / "out"), Access())
    assert verify(str(tmp_path / "out"), Access(), every_record=True) == before
    _pq.write_table(pa.table(COLUMNS), tmp_path / "in" / "sequel.parquet")
    assert verified_run(job).records_out == 8


def test_a_lost_plan_without_nulls_is_made_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = made_before(a_job(tmp_path, "parquet", "in", **SKIP), monkeypatch)
    for lost in (tmp_path / "out" / before.files[0].file, tmp_path / "out/_dataprep" / before.run_id / "plan.json"):
        lost.unlink()
    repair.repair(str(tmp_path / "out"), Access())
    assert verify(str(tmp_path / "out"), Access(), every_record=True) == before


# --- what steps, splits and joins do ------------------------------------------------------------------------------


def after(folder: Path, columns: str, *transforms: dict[str, Any], **spec: Any) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = _pq.read_table(
        the_file(a_job(folder, "parquet", columns, transforms=list(transforms), **spec))
    ).to_pylist()
    return rows


def test_a_filter_that_compares_a_null_leaves_the_record_out(tmp_path: Path) -> None:
    assert [row["n"] for row in after(tmp_path, "in", {"filter": {"where": "i < 4"}})] == [1, 2]


def test_a_filter_can_test_for_nulls(tmp_path: Path) -> None:
    assert [row["n"] for row in after(tmp_path, "in", {"filter": {"where": "is_null(i) or i > 4"}})] == [0, 4]


def test_text_steps_keep_nulls(tmp_path: Path) -> None:
    steps = [{"hash": {"columns": ["i"]}}, {"vocabulary": {"columns": ["s"], "terms": ["", "x", "y", "z"]}}]
    found = after(tmp_path, "isn", *steps)
    assert [row["i"] is None for row in found] == [True, False, False, False, False]
    assert [row["s"] for row in found] == [1, 0, None, 2, 3]


def test_words_of_a_null_are_null(tmp_path: Path) -> None:
    assert [row["s"] for row in after(tmp_path, "sn", {"tokenizeSplit": {"columns": ["s"]}})] == [["x"], [], None, ["y"], ["z"]]


def test_a_null_is_the_background_class(tmp_path: Path) -> None:
    found = after(tmp_path, "in", {"oneHot": {"columns": ["i"], "numClasses": 6, "background": True}})
    assert found[0]["i"] == [0, 0, 0, 0, 0, 0, 1]


@pytest.mark.parametrize(
    "step",
    [
        {"cast": {"columns": ["i"], "dtype": "float32"}},
        {"scale": {"columns": ["i"]}},
        {"oneHot": {"columns": ["i"], "numClasses": 6}},
    ],
    ids=lambda step: next(iter(step)),
)
def test_steps_that_compute_refuse_a_null_by_name(tmp_path: Path, step: dict[str, Any]) -> None:
    with pytest.raises(BadData, match=r"rows\.parquet, record 0: i has no value\. Set"):
        after(tmp_path, "in", step)


def test_a_null_within_a_list_is_refused_by_name(tmp_path: Path) -> None:
    _pq.write_table(pa.table({"l": [[1], [2, None]]}), tmp_path / "a.parquet")
    spec = {"source": {"parquet": {"uris": [str(tmp_path / "a.parquet")]}}, "output": {"uri": str(tmp_path / "out"), "format": "parquet"}}
    message = r"record 1: column 'l' has a null among its values; add nested: \[\"l\"\] to source\.parquet to keep such lists\."
    with pytest.raises(BadData, match=message):
        run_job(parse_job(spec))


def test_nulls_are_equal_when_records_are_compared(tmp_path: Path) -> None:
    _pq.write_table(
        pa.table({"i": [None, 1, None, 1], "v": pa.array([None, [1], None, [2]], pa.list_(pa.int64(), 1))}), tmp_path / "a.parquet"
    )
    spec = {"source": {"parquet": {"uris": [str(tmp_path / "a.parquet")]}}, "output": {"uri": str(tmp_path / "out"), "format": "jsonl"}}
    job = parse_job(spec | {"deduplicate": {"columns": ["i", "v"]}})
    assert the_file(job).read_text() == '{"i":null,"v":null}\n{"i":1,"v":[1]}\n{"i":1,"v":[2]}\n'


@pytest.mark.parametrize(
    ("splits", "expected"),
    [
        ({"column": "g", "into": [{"name": "a", "values": ["1"]}, {"name": "rest"}]}, {"a": [1, 4], "rest": [0, 2, 3, 5]}),
        ({"column": "g", "into": [{"name": "a", "since": "0"}, {"name": "rest"}]}, {"a": [1, 2, 4, 5], "rest": [0, 3]}),
    ],
    ids=["values", "range"],
)
def test_a_null_is_in_no_value_and_in_no_range(tmp_path: Path, splits: dict[str, Any], expected: dict[str, list[int]]) -> None:
    assert split_by(tmp_path, splits) == expected


def test_nulls_are_one_group(tmp_path: Path) -> None:
    splits = {"groupBy": "g", "into": [{"name": "a", "fraction": 0.5}, {"name": "b", "fraction": 0.5}]}
    found = split_by(tmp_path, splits)
    assert sorted(found["a"] + found["b"]) == [0, 1, 2, 3, 4, 5]
    for group in ([0, 3], [1, 4], [2, 5]):
        assert any(set(group) <= set(records) for records in found.values())


def split_by(folder: Path, splits: dict[str, Any]) -> dict[str, list[int]]:
    """The records of each split of a table whose column `g` has the values null, 1 and 2 in turn."""
    _pq.write_table(pa.table({"n": range(6), "g": [None, 1, 2] * 2}), folder / "a.parquet")
    source = {"parquet": {"uris": [str(folder / "a.parquet")]}}
    output = {"uri": str(folder / "out"), "format": "jsonl", "shards": {"count": 1}}
    out = output_of(parse_job({"source": source, "splits": splits, "output": output}))
    return {
        split["name"]: [json.loads(line)["n"] for file in sorted(out.glob(f"{split['name']}*.jsonl")) for line in file.read_text().splitlines()]
        for split in splits["into"]
    }  # fmt: skip


def a_join(folder: Path, left: pa.Table, right: pa.Table, spec: dict[str, Any] | None = None, **right_table: Any) -> list[dict[str, Any]]:
    """The records of two tables joined by `n`."""
    tables = [{"name": name, "source": {"parquet": {"uris": [str(folder / f"{name}.parquet")]}}} for name in ("a", "b")]
    for name, table in (("a", left), ("b", right)):
        _pq.write_table(table, folder / f"{name}.parquet")
    join = {"keys": ["n"], "missing": "Drop", "tables": [tables[0], tables[1] | right_table]}
    output = {"uri": str(folder / "out"), "format": "jsonl", "shards": {"count": 1}}
    out = output_of(parse_job({"source": {"join": join}, "output": output} | (spec or {})))
    return [json.loads(line) for line in next(out.glob("*.jsonl")).read_text().splitlines()]


LEFT = pa.table({"n": [1, 2, None], "i": pa.array([None, 5, 6], pa.int64()), "s": ["x", None, "z"]})
RIGHT = pa.table({"n": [2, 1, 1], "f": pa.array([0.5, None, 1.5], pa.float32())})


def test_a_join_keeps_nulls_of_its_tables(tmp_path: Path) -> None:
    records = a_join(tmp_path, LEFT.slice(0, 2), RIGHT.slice(0, 2))
    assert records == [{"i": None, "s": "x", "f": None}, {"i": 5, "s": None, "f": 0.5}]


def test_a_join_refuses_a_null_key(tmp_path: Path) -> None:
    with pytest.raises(BadData, match=r"record 2: a: n has no value, and a null is no key of a join\."):
        a_join(tmp_path, LEFT, RIGHT.slice(0, 2))


def test_a_join_leaves_out_the_rows_with_null_keys_if_bad_records_are_skipped(tmp_path: Path) -> None:
    assert a_join(tmp_path, LEFT, RIGHT.slice(0, 2), SKIP) == [{"i": None, "s": "x", "f": None}, {"i": 5, "s": None, "f": 0.5}]


def test_a_join_refuses_a_null_within_a_sequence(tmp_path: Path) -> None:
    with pytest.raises(BadData) as refused:
        a_join(tmp_path, LEFT.slice(0, 2), RIGHT, orderBy=["f"])
    assert str(refused.value) == (
        f"{tmp_path}/b.parquet, record 1: b: column 'f' has no value and no default. The steps of a sequence can't be null; "
        'add defaults: {"f": "0"}, or another value of its type, to source.join.tables[1].source.parquet. '
        "Otherwise, set onBadRecord.policy: Skip to leave such records out."
    )


def test_a_default_in_the_source_of_the_table_makes_the_sequence(tmp_path: Path) -> None:
    source = {"parquet": {"uris": [str(tmp_path / "b.parquet")], "defaults": {"f": "9"}}}
    made = a_join(tmp_path, LEFT.slice(0, 2), RIGHT, orderBy=["f"], source=source)
    assert [record["f"] for record in made] == [[1.5, 9.0], [0.5]]


INFERRED = 'list the columns in source.csvSequences.{}columns, with {{name: "{}", type: Float32, default: "NaN"}}'
CELLS = [{"name": "x", "type": "Float32"}, {"name": "y", "type": "Int64"}]
SEQUENCES: dict[str, tuple[dict[str, Any], str, str]] = {
    "inferred": ({}, "line 2: column '1' is empty or a word such as NA, and has no default", INFERRED.format("", "1")),
    "listed": (
        {"columns": CELLS},
        "line 2: column 'y' is empty and has no default",
        "add default: \"0\" to the column 'y' in source.csvSequences.columns",
    ),
    "labels": (
        {"labels": {"uris": ["{}/labels"]}, "select": ["0"]},
        "its labels, line 2: column 'label' is empty or a word such as NA, and has no default",
        INFERRED.format("labels.", "label"),
    ),
    "listed labels": (
        {"labels": {"uris": ["{}/labels"], "columns": [{"name": "z", "type": "Float32"}]}, "select": ["0"]},
        "its labels, line 2: column 'z' is empty and has no default",
        "add default: \"NaN\" to the column 'z' in source.csvSequences.labels.columns",
    ),
}


def a_sequence(folder: Path, options: dict[str, Any], **spec: Any) -> DataPrepJob:
    for name, text in {"in": "1,2\n3,\n", "labels": '1\n""\n'}.items():
        (folder / name).mkdir(exist_ok=True)
        (folder / name / "a.csv").write_text(text)
    source: Any = json.loads(json.dumps({"uris": [str(folder / "in")], **options}).replace("{}", str(folder)))
    return parse_job({"source": {"csvSequences": source}, "output": {"uri": str(folder / "out"), "format": "jsonl"}, **spec})


@pytest.mark.parametrize(("options", "reason", "advice"), SEQUENCES.values(), ids=SEQUENCES.keys())
def test_a_sequence_of_a_csv_file_refuses_an_empty_number(options: dict[str, Any], reason: str, advice: str, tmp_path: Path) -> None:
    with pytest.raises(BadData) as refused:
        run_job(a_sequence(tmp_path, options))
    assert str(refused.value) == (
        f"{tmp_path}/in/a.csv, record 0: {reason}. The steps of a sequence can't be null; {advice}. "
        "Otherwise, set onBadRecord.policy: Skip to leave such records out."
    )


@pytest.mark.parametrize(
    ("columns", "steps"),
    [
        ([{"name": "0", "type": "Float32"}, {"name": "1", "type": "Float32", "default": "NaN"}], [2.0, None]),
        ([CELLS[0], CELLS[1] | {"default": "0"}], [2, 0]),
    ],
    ids=["inferred", "listed"],
)
def test_the_advised_default_makes_the_sequence(columns: list[Any], steps: list[Any], tmp_path: Path) -> None:
    output = {"uri": str(tmp_path / "out"), "format": "jsonl", "jsonl": {"nonFinite": "Null"}}
    out = output_of(a_sequence(tmp_path, {"columns": columns}, output=output))
    (made,) = [json.loads(line) for line in next(out.glob("*.jsonl")).read_text().splitlines()]
    assert made[columns[1]["name"]] == steps


def test_a_join_refuses_nulls_if_the_job_does(tmp_path: Path) -> None:
    with pytest.raises(BadData, match=r"record 0: a: column 'i' has no value and no default\."):
        a_join(tmp_path, LEFT.slice(0, 2), RIGHT.slice(0, 2), {"nulls": "Bad"})


def test_a_function_gets_and_returns_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code = "def swap(record):\n    return record | {'i': record['n'] if record['i'] is None else None, 'n': record['v'] is None}\n"
    (tmp_path / "steps_for_nulls.py").write_text(code)
    monkeypatch.syspath_prepend(tmp_path)  # type: ignore[no-untyped-call,unused-ignore]  # pytest has no type for it
    made = [{"name": "i", "type": "Int64"}, {"name": "n", "type": "Bool"}]
    swap = {"transforms": [{"map": {"callable": "steps_for_nulls:swap", "columns": made}}]}
    lines = the_file(a_job(tmp_path, "jsonl", "ivn", **swap, **SKIP)).read_text().splitlines()
    assert [(row["i"], row["v"], row["n"]) for row in map(json.loads, lines)] == [
        (0, [1.0, 2.0], False), (None, [3.0, 4.0], False), (None, [5.0, 6.0], False), (None, [7.0, 8.0], False),
    ]  # fmt: skip
    with pytest.raises(
        BadData, match=r"record 3: the plug-in 'steps_for_nulls:swap' returned a value that doesn't fit: record 0: v is None; expected"
    ):
        run_job(a_job(tmp_path, "jsonl", "ivn", **swap))


def test_statistics_count_nulls(tmp_path: Path) -> None:
    folder = output_of(a_job(tmp_path, "parquet", "isvn"))
    (file,) = folder.rglob("statistics.json")
    features = json.loads(file.read_text())["splits"]["train"]["features"]
    assert {name: (feature["count"], feature["missing"]) for name, feature in features.items()} == {
        "i": (4, 1), "s": (4, 1), "v": (4, 1), "n": (5, 0),
    }  # fmt: skip


def test_a_default_of_another_type_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadSpec, match=r"source\.parquet\.defaults: the default 'NaN' of 'i' is not a int64\."):
        run_job(a_job(tmp_path, "parquet", "in", parquet={"defaults": {"i": "NaN"}}))
