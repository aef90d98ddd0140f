"""Several processes examine files of records and of columns before the plan step. The plan is byte for byte the same as with one
process."""

import gzip
import io
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import fastavro
import numpy as np
import pyarrow as pa
import pyarrow.orc
import pyarrow.parquet
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.builders.archives import a_tar
from tests.builders.examples import examples
from tests.builders.jobs import run_job
from tests.builders.scans import begun_scan, discovered, listings, opened_files, plan_or_error, scan, scan_files
from tests.builders.sequence_files import block, head, numbered, records
from tests.builders.specs import parse_job
from tests.builders.tfrecords import example, message

from dataprep_api.resources.job import DataPrepJob
from dataprep_converter.core.framing import frame
from dataprep_converter.inputs.access import Access
from dataprep_converter.planning.planner import make_plan
from dataprep_converter.readers import READERS, stored_form
from dataprep_converter.readers.base.examined import FILE_BYTES
from dataprep_converter.readers.columnar import avro
from dataprep_converter.readers.foreign import webdataset
from dataprep_converter.readers.hadoop import sequence_file
from dataprep_converter.readers.tfrecord import tfrecord
from dataprep_converter.runtime import scans
from dataprep_converter.steps.conversion.scan_step import run_scan_step, scanned_before

_pa: Any = pa  # the type stubs lack some functions
FEATURES = [{"name": "x", "type": "Int64"}, {"name": "y", "type": "Float32"}]


@dataclass(frozen=True)
class Kind:
    """A kind of source, and the files that a scan reads from it."""

    source: Mapping[str, Any]
    """The source, with IN in place of the folder."""
    content: Callable[[int, int], bytes]
    """The content of a file, given its number and the number of its rows."""
    name: str = "{:02}"
    opens: tuple[str, ...] = ()
    """The files that the plan step reads although they were scanned, because the columns depend on their first records."""


def some_records(number: int, rows: int) -> bytes:
    content = b"".join(frame(example(x=[number], y=[float(row)])) for row in range(rows))
    return gzip.compress(content, mtime=0) if number % 4 == 3 else content


def sequence_examples(number: int, rows: int) -> bytes:
    made = []
    for row in range(rows):
        record = message({"x": [number]})
        for step in range(row % 3 + 1):
            record.feature_lists.feature_list["s"].feature.add().int64_list.value.append(step)
        made.append(frame(record.SerializeToString()))
    return b"".join(made)


def sequences(number: int, rows: int) -> bytes:
    pairs = numbered(rows, first=number)
    if number % 2 and rows:
        return head("Text", "LongWritable", compression="Block") + block(pairs)
    return head("Text", "LongWritable") + records(pairs)


def npy(number: int, rows: int) -> bytes:
    content = io.BytesIO()
    np.save(content, np.arange(2 * rows, dtype=">f4").reshape(rows, 2) + number)
    return content.getvalue()


def npz(number: int, rows: int) -> bytes:
    content = io.BytesIO()
    (np.savez_compressed if number % 2 else np.savez)(content, n=np.arange(rows), t=np.array([f"{row:3}" for row in range(rows)], "U3"))
    return content.getvalue()


def table(number: int, rows: int, **options: Any) -> pa.Table:
    """A table whose files have different columns: different numbers, types and metadata."""
    columns: dict[str, Any] = {
        "n": pa.array(range(rows), pa.int32() if number % 2 else pa.int64()),
        "when": pa.array(range(rows), pa.timestamp("us" if number % 3 else "ms")),
        "s": _pa.StructArray.from_arrays([pa.array(range(rows), pa.int16())], names=["x"]),
    } | options
    if number % 3 == 1:
        columns["more"] = pa.array(["more"] * rows, pa.string()) if number < 4 else pa.nulls(rows)
    return pa.table(columns).replace_schema_metadata({"rows": str(rows)})


def of_parquet(number: int, rows: int) -> bytes:
    content: Any = io.BytesIO()
    writer: Any = pa.parquet
    write = {"use_deprecated_int96_timestamps": True, "store_schema": False} if number % 2 else {}
    writer.write_table(table(number, rows), content, row_group_size=3, **write)
    made: bytes = content.getvalue()
    return made


def of_orc(number: int, rows: int) -> bytes:
    content: Any = io.BytesIO()
    writer: Any = pa.orc
    columns = table(number % 4, rows).drop_columns(["when"])  # ORC has no type null
    writer.write_table(columns, content)
    made: bytes = content.getvalue()
    return made


def of_arrow(number: int, rows: int) -> bytes:
    content: Any = io.BytesIO()
    colours = pa.DictionaryArray.from_arrays(pa.array([row % 2 for row in range(rows)], pa.int8()), pa.array(["red", "blue"]))
    made = table(number, rows, colour=colours)
    with (_pa.ipc.new_stream if number % 2 else _pa.ipc.new_file)(content, made.schema) as writer:
        writer.write_table(made, max_chunksize=3)
    result: bytes = content.getvalue()
    return result


def of_avro(number: int, rows: int) -> bytes:
    content = io.BytesIO()
    kind = "int" if number % 2 else "long"
    schema: Any = {"type": "record", "name": "r", "fields": [{"name": "n", "type": kind}, {"name": "t", "type": "string"}]}
    fastavro.writer(content, fastavro.parse_schema(schema), [{"n": row, "t": f"{row}"} for row in range(rows)], sync_interval=20)
    return content.getvalue()


def tar(number: int, rows: int) -> bytes:
    members = {f"{row}.{extension}": f"{number}".encode() for row in range(rows) for extension in ("cls", "bin")}
    content = a_tar(members)
    return gzip.compress(content, mtime=0) if number % 2 else content


IN: Any = {"uris": ["IN"]}
KINDS: dict[str, Kind] = {
    "tfrecord": Kind({"tfrecord": IN}, some_records, opens=("00", "01", "03", "04")),
    "tfrecord-features": Kind({"tfrecord": {**IN, "features": FEATURES}}, some_records),
    "tfrecord-raw": Kind({"tfrecord": {**IN, "raw": True}}, some_records),
    "tfrecord-sequences": Kind({"tfrecord": IN}, sequence_examples, opens=("00", "01", "03", "04")),
    "sequenceFile": Kind({"sequenceFile": IN}, sequences, opens=("00",)),
    "npy": Kind({"numpy": IN}, npy, "{:02}.npy"),
    "npz": Kind({"numpy": {**IN, "members": {"common": "n", "text": "t"}}}, npz, "{:02}.npz"),
    "npy-arrays": Kind({"numpy": {"arrays": {"b": "IN/*.npy", "a": "IN/*.npy"}}}, npy, "{:02}.npy"),
    "parquet": Kind({"parquet": IN}, of_parquet),
    "parquet-columns": Kind({"parquet": {**IN, "columns": ["s/x", "n"]}}, of_parquet),
    "parquet-hive": Kind({"parquet": {**IN, "hivePartitions": "Infer"}}, of_parquet, "k={:02}/rows"),
    "orc": Kind({"orc": IN}, of_orc),
    "arrow": Kind({"arrow": IN}, of_arrow),
    "avro": Kind({"avro": IN}, of_avro),
    "webdataset": Kind({"webdataset": IN}, tar, "{:02}.tar", opens=("00.tar", "01.tar", "03.tar")),
}


@pytest.fixture(autouse=True)
def small_units(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (tfrecord, sequence_file, webdataset):
        monkeypatch.setattr(module, "_UNIT_BYTES", 64)
    monkeypatch.setattr(avro, "UNIT_BYTES", 64)
    monkeypatch.setattr(scans, "PART_BYTES", FILE_BYTES)
    monkeypatch.setattr(scans, "LEAST_PART_BYTES", 1)


def put(folder: Path, kind: Kind, number: int, content: bytes) -> None:
    file = folder / "in" / kind.name.format(number)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(content)


def a_job(folder: Path, kind: Kind) -> DataPrepJob:
    source = json.loads(json.dumps(kind.source).replace("IN", str(folder / "in")))
    return parse_job({"source": source, "output": {"uri": str(folder / "out"), "format": "jsonl", "shards": {"count": 2}}})


def prepared(folder: Path, kind: Kind, sizes: list[int]) -> DataPrepJob:
    for number, rows in enumerate(sizes):
        put(folder, kind, number, kind.content(number, rows))
    return a_job(folder, kind)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
@settings(max_examples=examples(60), deadline=None)
@given(data=st.data())
def test_the_plan_or_the_error_is_that_of_one_process(kind: Kind, tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    """The plan or the error doesn't depend on the parts. Results may also be lost, damaged, or from an earlier version of a file."""
    folder = tmp_path_factory.mktemp("scan")
    sizes = data.draw(st.lists(st.integers(0, 9), min_size=1, max_size=6), label="rows of each file")
    job = prepared(folder, kind, [max(1, sizes[0]), *sizes[1:]])
    files = st.integers(0, len(sizes) - 1)
    for number in data.draw(st.sets(files, max_size=2), label="damaged files"):
        content = kind.content(number, 5)
        put(folder, kind, number, content[: data.draw(st.integers(0, len(content)), label="bytes left")])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(scans, "PART_BYTES", data.draw(st.integers(1, 5), label="files of a part") * FILE_BYTES)
        scan(job, is_listed=data.draw(st.booleans(), label="is listed"))
    for number in data.draw(st.sets(files, max_size=2), label="replaced files"):
        put(folder, kind, number, kind.content(number, 11))
    for file in data.draw(st.sets(st.sampled_from(stored), max_size=2)) if (stored := scan_files(folder)) else ():
        if data.draw(st.booleans(), label="lost"):
            file.unlink()
        else:
            file.write_bytes(file.read_bytes()[:-1])
    found = plan_or_error(job)
    for file in scan_files(folder):
        file.unlink()
    assert found == plan_or_error(job)


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_the_plan_step_opens_no_file_that_was_scanned(kind: Kind, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    job = prepared(tmp_path, kind, [5, 8, 0, 7, 3])
    expected = discovered(job)
    assert scan(job) == len(scan_files(tmp_path)) >= 3
    opened = opened_files(monkeypatch)
    assert discovered(job) == expected
    assert opened == list(kind.opens)


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_a_part_does_not_list_the_source(kind: Kind, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    job = prepared(tmp_path, kind, [5, 8, 0, 7, 3])
    expected = discovered(job)
    name, parts = begun_scan(job)
    with monkeypatch.context() as patch:
        listed = listings(patch)
        for part in range(parts):
            run_scan_step(job.spec, Access(), part, scan=name)
    assert listed == []
    assert len(scan_files(tmp_path)) == parts >= 3
    assert discovered(job) == expected


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_a_file_is_not_examined_in_another_version_than_listed(kind: Kind, tmp_path: Path) -> None:
    """A file can be replaced after the listing, scanned, and then restored. The plan step must not use the results of the other version."""
    job = prepared(tmp_path, kind, [5, 8, 7])
    expected = discovered(job)
    name, parts = begun_scan(job)
    listed = tmp_path / "in" / kind.name.format(2)
    listed.rename(tmp_path / "away")
    put(tmp_path, kind, 2, kind.content(2, 6))
    for part in range(parts):
        run_scan_step(job.spec, Access(), part, scan=name)
    (tmp_path / "away").rename(listed)
    assert discovered(job) == expected


def test_every_source_whose_files_are_read_for_the_plan_is_scanned() -> None:
    """`docs/design.md` explains why the other sources aren't scanned."""
    texts = {"csv", "jsonl", "text", "libsvm"}
    others = {"tfrecord", "sequence_file", "numpy", "webdataset", "parquet", "orc", "arrow", "avro"}
    assert {kind for kind in READERS if stored_form(kind) is not None} == texts | others
    assert {parse_job({"source": kind.source, "output": {"uri": "/out"}}).spec.data.kind for kind in KINDS.values()} == others


def test_only_the_first_records_of_eight_files_are_read_to_infer_the_features(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    job = prepared(tmp_path, KINDS["tfrecord"], [2] * 12)
    expected = discovered(job)
    scan(job)
    opened = opened_files(monkeypatch)
    assert discovered(job) == expected
    assert opened == [f"{number:02}" for number in range(8)]


def test_a_scan_reads_no_records_to_infer_the_features(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The features are inferred from the records of the first files. A scan doesn't know which files have records, so it reads none."""
    job = prepared(tmp_path, KINDS["tfrecord"], [2] * 3)
    parsed: list[bytes] = []
    monkeypatch.setattr(tfrecord, "parse_sequence", parsed.append)
    scan(job)
    assert (len(scan_files(tmp_path)), parsed) == (3, [])


def test_a_file_of_other_records_is_named_by_the_plan_step(tmp_path: Path) -> None:
    kind = KINDS["tfrecord"]
    job = prepared(tmp_path, kind, [2, 2])
    put(tmp_path, kind, 1, 2 * frame(b"no Example"))
    expected = plan_or_error(job)
    scan(job)
    assert plan_or_error(job) == expected
    assert "01, offset 0" in expected[1]
    assert "Set source.tfrecord.raw" in expected[1]


def test_a_data_set_of_this_project_names_the_features(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A data set of this project names its features, so no records are needed to infer them."""
    (tmp_path / "rows.csv").write_text("n\n" + "1\n" * 90)
    run_job(
        parse_job(
            {
                "source": {"csv": {"uris": [str(tmp_path / "rows.csv")], "header": True}},
                "output": {"uri": str(tmp_path / "in"), "format": "tfrecord", "shards": {"count": 3}},
            }
        )
    )
    job = a_job(tmp_path, KINDS["tfrecord"])
    expected = discovered(job)
    assert scan(job) == 3
    opened = opened_files(monkeypatch)
    assert discovered(job) == expected
    assert [name for name in opened if name.endswith(".tfrecord")] == []


def test_results_of_an_earlier_rule_are_not_used(tmp_path: Path) -> None:
    """The plan of an existing data set can use an earlier version of a rule.

    Under this version, the reader finds other columns in the same file.
    """
    job = prepared(tmp_path, KINDS["parquet"], [5, 5])

    def state_of(access: Access) -> Any:
        with make_plan(job.spec, access, parts={"structs": 2}) as made:
            return made.plan.head.to_bytes()

    expected = state_of(Access())
    scan(job)
    access = Access()
    access.scan = scanned_before(job.spec, access)
    assert state_of(access) == expected


def test_a_schema_that_all_files_have_is_stored_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The files have the same schema, but their metadata differs."""
    monkeypatch.setattr(scans, "PART_BYTES", 1 << 40)
    kind = Kind({"arrow": IN}, lambda number, rows: of_arrow(6 * number, rows + number))
    scan(prepared(tmp_path, kind, [5] * 20))
    (file,) = scan_files(tmp_path)
    common, results = json.loads(file.read_bytes().partition(b"\n")[2])
    assert (len(common), len(results)) == (1, 20)


def test_a_footer_is_stored_without_its_statistics(tmp_path: Path) -> None:
    kind = KINDS["parquet"]
    scan(prepared(tmp_path, kind, [900]))
    (file,) = scan_files(tmp_path)
    _, ((*_, document, _),) = json.loads(file.read_bytes().partition(b"\n")[2])
    assert len(json.dumps(document["spans"])) < 300 * 25
