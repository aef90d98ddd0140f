"""Jobs keep nulls in formats that can store nulls.

For all other formats, the error names the column, the record, and the line to add to the job.
"""

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
from tests.converter.steps.null_columns import COLUMNS, a_job, the_file

from dataprep_converter.core.errors import BadData, BadSpec
from dataprep_converter.formats.tfrecord import records
from dataprep_converter.pipeline import shard_samples

_pq: Any = pq  # the module has no type stubs
ROWS: list[dict[str, Any]] = pa.table(COLUMNS).to_pylist()


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
    # A record begins with the number of its values as int32. Each value follows its type: 5 is a long, 6 a null, which has no bytes, and 7
    # a text. The records are (null, "x") and (3, null).
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
    """The error message of a job that writes a table to `mds`. The message's first sentence is left out: the fault's place and reason."""
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
