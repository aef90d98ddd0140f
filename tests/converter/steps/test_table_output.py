"""Data sets as rows of MaxCompute tables, with pyodps and the fake: each block is sent once, and rows are visible only after the commit."""

import base64
import datetime as dt
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.builders.jobs import run_job
from tests.builders.specs import parse_job
from tests.converter.steps.by_workers import run_by_workers

from dataprep_api import names
from dataprep_api.errors import SpecError
from dataprep_api.resources.job import DataPrepJob
from dataprep_converter.core.errors import BadData, BadSpec, Missing, NotPermitted, NotWhole, OutputExists, OutputLost, StoreError
from dataprep_converter.dataset.output_folder import OutputFolder
from dataprep_converter.inputs import maxcompute
from dataprep_converter.inputs.access import Access
from dataprep_converter.steps.conversion import table_output
from dataprep_converter.tools.verification import verify
from storeservers.odps import FakeMaxCompute, rows_of, wire

T = "odps://p/tables/out"
COLUMNS: dict[str, pa.DataType] = {"id": pa.int64(), "word": pa.string(), "x": pa.float32()}
TYPES = {"id": "bigint", "word": "string", "x": "float"}


@pytest.fixture(autouse=True)
def fake(maxcompute: FakeMaxCompute) -> FakeMaxCompute:
    """The fake with an empty table `out` and an empty, partitioned table `parts`."""
    schema = pa.schema(list(COLUMNS.items()))
    maxcompute.make("out", TYPES, schema)
    maxcompute.make("parts", TYPES, schema, keys=["pt"])
    return maxcompute


def a_job(
    folder: Path, table: str = T, *, rows: int = 40, shards: int = 4, output: dict[str, Any] | None = None, **spec: Any
) -> DataPrepJob:
    file = folder / "in.csv"
    if not file.exists():
        file.write_text("id,word,x\n" + "".join(f"{number},word {number},{number / 4}\n" for number in range(rows)))
    columns = [{"name": "id", "type": "Int64"}, {"name": "word", "type": "String"}, {"name": "x", "type": "Float32"}]
    written = {
        "source": {"csv": {"uris": [str(file)], "header": True, "columns": columns}},
        "output": {"uri": str(folder / "out"), "format": "arrow", "shards": {"count": shards}, "table": {"uri": table}, **(output or {})},
        **spec,
    }
    return parse_job(written, name="rows")


def expected(count: int = 40) -> list[dict[str, Any]]:
    return [{"id": number, "word": f"word {number}", "x": number / 4} for number in range(count)]


def written(fake: FakeMaxCompute, name: str = "out", **options: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = fake.rows(name, **options).to_pylist()
    return rows


def stops(monkeypatch: pytest.MonkeyPatch, what: str) -> None:
    """Makes the commit step fail before or after the rows are committed."""
    real = table_output.commit

    def dies(*arguments: Any) -> None:
        if what == "after":
            real(*arguments)
        raise StoreError("a test stops it here")

    monkeypatch.setattr(table_output, "commit", dies)


def note(folder: Path) -> dict[str, Any]:
    (file,) = (folder / "out" / names.SIDE).glob("*/upload.json")
    found: dict[str, Any] = json.loads(file.read_text())
    return found


def test_every_record_becomes_a_row_and_every_shard_one_block(fake: FakeMaxCompute, tmp_path: Path) -> None:
    run_job(a_job(tmp_path))
    assert written(fake) == expected()
    assert sorted(fake.sent_blocks()) == [0, 1, 2, 3]
    assert verify(str(tmp_path / "out"), Access()).records_out == 40


def test_eight_workers_send_each_block_once(fake: FakeMaxCompute, tmp_path: Path) -> None:
    assert run_by_workers(a_job(tmp_path, shards=8, workers={"parallelism": 8})) == 8
    assert written(fake) == expected()
    assert sorted(fake.sent_blocks()) == list(range(8))


@pytest.mark.slow
def test_what_was_written_is_read_again(fake: FakeMaxCompute, tmp_path: Path) -> None:
    run_job(a_job(tmp_path, "odps://p/tables/parts/pt=20260101"))
    assert written(fake, "parts", partition="pt=20260101") == expected()
    (tmp_path / "again").mkdir()
    source = {"table": {"uris": ["odps://p/tables/parts/pt=20260101"]}}
    run_job(a_job(tmp_path / "again", "odps://p/tables/parts/pt=20260102", source=source))
    assert written(fake, "parts", partition="pt=20260102") == expected()
    assert verify(str(tmp_path / "again" / "out"), Access()).records_out == 40


def test_values_become_those_of_their_columns(fake: FakeMaxCompute, tmp_path: Path) -> None:
    columns: dict[str, pa.DataType] = {"id": pa.timestamp("ms"), "x": pa.float64(), "word": pa.binary()}
    fake.make("out", {"id": "datetime", "x": "double", "word": "binary"}, pa.schema(list(columns.items())))
    run_job(a_job(tmp_path, rows=2, shards=1))
    moments = [dt.datetime(1970, 1, 1), dt.datetime(1970, 1, 1, 0, 0, 0, 1000)]  # noqa: DTZ001 - Arrow's timestamps have no zone
    assert [row["id"].replace(tzinfo=None) for row in written(fake)] == moments
    assert [(row["x"], row["word"]) for row in written(fake)] == [(0.0, b"word 0"), (0.25, b"word 1")]


def test_nulls_become_those_of_their_columns(fake: FakeMaxCompute, tmp_path: Path) -> None:
    (tmp_path / "in.csv").write_text("id,word,x\n0,,0.5\n,b,\n2,c,1.5\n")
    run_job(a_job(tmp_path, shards=1))
    assert [tuple(row.values()) for row in written(fake)] == [(0, "", 0.5), (None, "b", None), (2, "c", 1.5)]


def test_a_value_that_does_not_fit_its_column_is_named(fake: FakeMaxCompute, tmp_path: Path) -> None:
    columns: dict[str, pa.DataType] = {"id": pa.int8(), "word": pa.string(), "x": pa.float32()}
    fake.make("out", TYPES | {"id": "tinyint"}, pa.schema(list(columns.items())))
    with pytest.raises(BadData, match=rf"{T}: a value of 'id' doesn't fit its column: .*128"):
        run_job(a_job(tmp_path, rows=200))
    assert written(fake) == []


def test_the_key_is_nowhere(fake: FakeMaxCompute, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG")
    run_job(a_job(tmp_path))
    files = [file for file in (tmp_path / "out").rglob("*") if file.is_file()]
    assert len(files) > 8
    for said in (*(file.read_bytes() for file in files), caplog.text.encode()):
        assert fake.secret.encode() not in said
        assert base64.b64encode(fake.secret.encode()) not in said


# --- before and after the commit ----------------------------------------------------------------------------------


def test_nothing_is_visible_before_the_commit_and_a_rerun_sends_nothing_twice(
    fake: FakeMaxCompute, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        stops(patch, "before")
        with pytest.raises(StoreError, match="a test stops it here"):
            run_job(a_job(tmp_path))
    assert written(fake) == []
    run_job(a_job(tmp_path))
    assert written(fake) == expected()
    assert sorted(fake.sent_blocks()) == [0, 1, 2, 3]


def test_a_commit_step_that_dies_after_the_rows_are_visible_is_repeated_without_harm(
    fake: FakeMaxCompute, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        stops(patch, "after")
        with pytest.raises(StoreError, match="a test stops it here"):
            run_job(a_job(tmp_path))
    assert not (tmp_path / "out" / "_SUCCESS").exists()
    session = note(tmp_path)["session"]
    run_job(a_job(tmp_path))
    assert written(fake) == expected()
    assert note(tmp_path)["session"] == session
    assert (tmp_path / "out" / "_SUCCESS").exists()


def test_a_block_whose_answer_is_lost_is_sent_again_and_replaces_itself(fake: FakeMaxCompute, tmp_path: Path) -> None:
    fake.controls.lose_blocks = 1
    run_job(a_job(tmp_path))
    assert written(fake) == expected()
    assert len(fake.sent_blocks()) == 5


def test_a_block_that_was_changed_on_its_way_is_refused_and_sent_again(
    fake: FakeMaxCompute, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = wire.received
    broken: list[int] = []

    def flips(body: bytes, schema: pa.Schema) -> pa.Table:
        if not broken:
            broken.append(1)
            body = body[:100] + bytes([body[100] ^ 1]) + body[101:]
        return real(body, schema)

    monkeypatch.setattr(wire, "received", flips)
    run_job(a_job(tmp_path))
    assert written(fake) == expected()
    assert len(fake.sent_blocks()) == 5


def test_a_commit_whose_answer_is_lost_is_found_to_be_done(fake: FakeMaxCompute, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("odps.tunnel.retry.time.sleep", lambda _: None)
    fake.controls.lose_commits = 1
    run_job(a_job(tmp_path))
    assert written(fake) == expected()


@pytest.mark.parametrize("how", ["end_sessions", "forget_sessions"])
def test_a_session_that_ended_before_the_commit_is_followed_by_another_without_making_shards_again(
    fake: FakeMaxCompute, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    with monkeypatch.context() as patch:
        stops(patch, "before")
        with pytest.raises(StoreError):
            run_job(a_job(tmp_path))
    times = {file.name: file.stat().st_mtime_ns for file in (tmp_path / "out").glob("*.arrow")}
    getattr(fake, how)()
    run_job(a_job(tmp_path))
    assert written(fake) == expected()
    assert {file.name: file.stat().st_mtime_ns for file in (tmp_path / "out").glob("*.arrow")} == times
    assert sorted(fake.sent_blocks()) == [0, 0, 1, 1, 2, 2, 3, 3]


def test_a_worker_or_commit_without_a_session_says_what_to_do(
    fake: FakeMaxCompute, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stops(monkeypatch, "before")
    with pytest.raises(StoreError):
        run_job(a_job(tmp_path))
    job = a_job(tmp_path)
    run_id = next((tmp_path / "out" / names.SIDE).glob("*/upload.json")).parent.name
    folder = OutputFolder(job.spec.output.uri, Access()).of_run(run_id)
    fake.end_sessions()
    for call in (
        lambda: table_output.open_rows(job.spec, folder, Access()),
        lambda: table_output._upload(maxcompute.Table(T, Access()), folder),
    ):
        with pytest.raises(
            OutputLost, match=rf"{T}: the upload session of run {run_id} is over\. Start the job again: finished shards are kept"
        ):
            call()


def test_shards_whose_rows_were_not_sent_are_named(fake: FakeMaxCompute, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = table_output.TableRows.send

    def forgets(self: Any, report: Any, *, is_new: bool) -> None:
        if report.number != 2:
            real(self, report, is_new=is_new)

    monkeypatch.setattr(table_output.TableRows, "send", forgets)
    with pytest.raises(Missing, match=rf"{T}: the rows of 1 shard were not sent: .*-00002-of-00004\.arrow\."):
        run_job(a_job(tmp_path))
    assert written(fake) == []


def test_rows_of_somebody_else_are_noticed(fake: FakeMaxCompute, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = maxcompute.Upload.commit

    def both(self: Any, blocks: set[int]) -> None:
        real(self, blocks)
        fake.fill("out", rows_of(fake.rows("out").slice(0, 39)))

    monkeypatch.setattr(maxcompute.Upload, "commit", both)
    with pytest.raises(NotWhole, match=rf"{T} has 39 rows after 40 were written: another program is writing to this table"):
        run_job(a_job(tmp_path))


# --- existing rows ----------------------------------------------------------------------------------------------


def other_rows() -> pa.Table:
    return pa.table({"id": [7], "word": ["old"], "x": [0.0]}, schema=pa.schema(list(COLUMNS.items())))


def test_rows_are_never_replaced_unless_the_spec_says_so(fake: FakeMaxCompute, tmp_path: Path) -> None:
    fake.fill("out", rows_of(other_rows()))
    with pytest.raises(OutputExists, match=rf"{T} holds 1 row; overwrite is Never"):
        run_job(a_job(tmp_path))
    assert len(written(fake)) == 1
    run_job(a_job(tmp_path, output={"overwrite": "IfChanged"}))
    assert written(fake) == expected()


def test_a_finished_table_is_reused_until_somebody_changes_it(fake: FakeMaxCompute, tmp_path: Path) -> None:
    job = a_job(tmp_path, output={"overwrite": "IfChanged"})
    run_job(job)
    first = note(tmp_path)
    assert run_job(job)[0].reused
    assert note(tmp_path) == first
    fake.fill("out", rows_of(other_rows()))
    assert not run_job(job)[0].reused
    assert written(fake) == expected()
    assert sorted(fake.sent_blocks()) == [0, 0, 1, 1, 2, 2, 3, 3]


def test_bad_records_leave_no_rows_and_an_empty_shard_no_block(fake: FakeMaxCompute, tmp_path: Path) -> None:
    lines = ["id,word,x", *(f"{'wrong' if number < 10 else number},w,0" for number in range(40))]
    (tmp_path / "in.csv").write_text("\n".join(lines) + "\n")
    run_job(a_job(tmp_path, onBadRecord={"policy": "Skip"}))
    assert [row["id"] for row in written(fake)] == list(range(10, 40))
    assert sorted(fake.sent_blocks()) == [1, 2, 3]


# --- what is refused ----------------------------------------------------------------------------------------------


def test_features_must_be_the_columns(fake: FakeMaxCompute, tmp_path: Path) -> None:
    columns: dict[str, pa.DataType] = {"id": pa.int64(), "words": pa.string()}
    schema = pa.schema(list(columns.items()))
    fake.make("out", {"id": "bigint", "words": "string"}, schema)
    expected_text = rf"{T}: it has no column for the features word, x; no feature has the name of its columns words\. Give the features the names of its columns\."
    with pytest.raises(BadSpec, match=expected_text):
        run_job(a_job(tmp_path))
    assert not (tmp_path / "out").exists() or not any((tmp_path / "out").glob("*.arrow"))


def test_a_type_that_cannot_become_the_columns_is_named(fake: FakeMaxCompute, tmp_path: Path) -> None:
    columns: dict[str, pa.DataType] = {"id": pa.int64(), "word": pa.list_(pa.string()), "x": pa.float32()}
    fake.make("out", TYPES | {"word": "array<string>"}, pa.schema(list(columns.items())))
    with pytest.raises(BadSpec, match=rf"{T}: the feature 'word' is string, which can't become the column's list<"):
        run_job(a_job(tmp_path))


def test_more_shards_than_a_session_has_blocks_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table_output, "MOST_BLOCKS", 3)
    with pytest.raises(
        BadSpec, match=rf"{T}: 4 shards are too many for an upload session, which takes 3 blocks; set fewer in output\.shards\."
    ):
        run_job(a_job(tmp_path))


def test_a_missing_right_to_write_is_named_before_any_work(fake: FakeMaxCompute, tmp_path: Path) -> None:
    fake.controls.denied.add("odps:Update")
    with pytest.raises(NotPermitted, match=r"missing odps:Update on acs:odps:\*:projects/p/tables/out"):
        run_job(a_job(tmp_path))
    assert not any((tmp_path / "out").glob("*.arrow"))


def test_other_formats_are_refused(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match=r"spec\.output: table needs format: arrow"):
        a_job(tmp_path, output={"format": "tfrecord"})
