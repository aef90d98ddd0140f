"""Bad records fail the job, are left out, or are kept. They are limited by count and by fraction."""

import base64
import gzip
import json
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.builders.jobs import run_job
from tests.builders.specs import parse_job

from dataprep_api.dataset.messages import CommitResult
from dataprep_api.resources.job import DataPrepJob
from dataprep_converter.core.errors import BadData
from dataprep_converter.inputs.access import Access
from dataprep_converter.pipeline import shard_samples
from dataprep_converter.records.batch import Raw
from dataprep_converter.statistics.statistics import ShardStatistics
from dataprep_converter.tools.inspect import inspection
from dataprep_converter.tools.verification import verify

COLUMNS = [{"name": "x", "type": "Int64"}, {"name": "label", "type": "Int64"}]
ROWS = [f"{n},{n % 3}" for n in range(60)]
ROWS[7] = '"seven\nteen",1'
ROWS[41] = "41,1,1"


def a_job(folder: Path, *, policy: dict[str, Any], text: bytes | None = None, **spec: Any) -> DataPrepJob:
    (folder / "a.csv").write_bytes("\n".join(ROWS).encode() if text is None else text)
    written = {
        "source": {"csv": {"uris": [str(folder / "a.csv")], "columns": COLUMNS}},
        "onBadRecord": policy,
        "output": {"uri": str(folder / "out"), "shards": {"count": 3}, "overwrite": "IfChanged"},
    }
    return parse_job(written | spec)


def made(job: DataPrepJob) -> CommitResult:
    return run_job(job)[1]


def kept(folder: Path) -> dict[str, list[dict[str, Any]]]:
    files = sorted((folder / "out" / "_dataprep").rglob("quarantine/*"))
    return {file.name: [json.loads(line) for line in file.read_text().splitlines()] for file in files}


@pytest.mark.parametrize("zipped", [False, True], ids=["plain", "gzip"])
def test_quarantine_keeps_each_bad_record_with_its_bytes_and_place(tmp_path: Path, zipped: bool) -> None:
    text = "\n".join(ROWS).encode()
    result = made(a_job(tmp_path, policy={"policy": "Quarantine"}, text=gzip.compress(text, mtime=0) if zipped else text))
    assert (result.records.in_, result.records.out, result.records.bad) == (60, 58, 2)
    uri = str(tmp_path / "a.csv")
    assert kept(tmp_path) == {
        "train-00000.jsonl": [
            {
                "uri": uri,
                "row": 7,
                "reason": "line 8: 'seven\\nteen' is not a Int64 (column 'x')",
                "raw": base64.b64encode(b'"seven\nteen",1').decode(),
            }
        ],
        "train-00002.jsonl": [
            {"uri": uri, "row": 41, "reason": "line 43: expect 2 fields but have 3", "raw": base64.b64encode(b"41,1,1").decode()}
        ],
    }
    assert result.quarantine_uri == str(tmp_path / "out" / "_dataprep" / result.run_id / "quarantine")
    assert [bad.row for bad in result.bad] == [7, 41]


def test_a_record_that_a_feature_refuses_is_kept_by_its_place(tmp_path: Path) -> None:
    made(a_job(tmp_path, policy={"policy": "Quarantine"}, text=b"1,0\n2,9\n", labels=[{"name": "label", "numClasses": 3}]))
    line = {"uri": str(tmp_path / "a.csv"), "row": 1, "reason": "line 2: label 9 is outside 0..2", "raw": None}
    assert kept(tmp_path) == {"train-00001.jsonl": [line]}


def test_bad_records_are_counted_by_what_refused_them_and_shards_by_their_time(tmp_path: Path) -> None:
    text = b"1,0\n2,0,too many\nno number,0\n4,9\n300,1\n"
    encode = {"oneHot": {"columns": ["label"], "numClasses": 3}}
    features = [{"name": "x", "columns": ["x"], "dtype": "uint8"}, {"name": "label", "columns": ["label"], "dtype": "float32"}]
    job = a_job(tmp_path, policy={"policy": "Skip"}, text=text, transforms=[encode], features=features)
    result = made(job)

    assert (result.records.in_, result.records.bad) == (5, 4)
    assert result.bad_reasons == {"Unreadable": 2, "Transform": 1, "Feature": 1}
    assert (sum(result.shards_within), result.shards_within[0]) == (3, 3)
    assert 0 < result.shard_seconds < 3
    assert sum(made(job).shards_within) == 0


def test_a_long_record_is_cut_and_its_size_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Raw, "MOST", 4)
    made(a_job(tmp_path, policy={"policy": "Quarantine"}, text=b"1,0\n2,9,too many\n"))
    (lines,) = kept(tmp_path).values()
    assert (base64.b64decode(lines[0]["raw"]), lines[0]["size"]) == (b"2,9,", 12)


def test_the_quarantine_is_hidden_equal_again_and_gone_with_its_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made(a_job(tmp_path, policy={"policy": "Quarantine"}))
    verify(str(tmp_path / "out"), Access())
    before = kept(tmp_path)
    (tmp_path / "out" / "train-00000-of-00003.tfrecords").unlink()
    made(a_job(tmp_path, policy={"policy": "Quarantine"}))
    assert kept(tmp_path) == before
    inspection.show(str(tmp_path / "out"), Access(), records=0, as_json=False, stream=sys.stdout)
    shown = capsys.readouterr().out
    assert "2 bad records were left out; all of them are kept in " in shown
    assert "/quarantine" in shown
    made(a_job(tmp_path, policy={"policy": "Skip"}))
    assert kept(tmp_path) == {}


def test_skip_keeps_nothing_but_counts_and_names(tmp_path: Path) -> None:
    result = made(a_job(tmp_path, policy={"policy": "Skip"}))
    assert (result.records.bad, result.quarantine_uri, kept(tmp_path)) == (2, None, {})
    assert result.bad[0].reason.startswith("line 8: ")


@pytest.mark.parametrize("policy", ["Skip", "Quarantine"])
@pytest.mark.parametrize(
    ("bounds", "message"),
    [
        pytest.param(
            {"maxCount": 1},
            "2 records are bad, more than onBadRecord.maxCount 1 allows; the first: .*a.csv, record 7: line 8: ",
            id="count",
        ),
        pytest.param(
            {"maxFraction": 0.03}, "2 of 60 records are bad, more than onBadRecord.maxFraction 0.03 allows; the first: ", id="fraction"
        ),
    ],
)
def test_too_many_bad_records_fail_the_job(tmp_path: Path, policy: str, bounds: dict[str, Any], message: str) -> None:
    with pytest.raises(BadData, match=message):
        made(a_job(tmp_path, policy={"policy": policy} | bounds))
    assert not (tmp_path / "out" / "_SUCCESS").exists()


def test_as_many_as_allowed_do_not_fail_it(tmp_path: Path) -> None:
    assert made(a_job(tmp_path, policy={"policy": "Skip", "maxCount": 2, "maxFraction": 2 / 60})).records.bad == 2


def test_a_shard_that_is_hopeless_by_itself_is_not_finished(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shard_samples, "MOST_RECORDS", 5)
    seen: list[int] = []
    text = b"x,y\n" * 20 + b"1,2\n" * 40
    monkeypatch.setattr(ShardStatistics, "add", lambda _, records: seen.append(records.num_rows))
    with pytest.raises(BadData, match="10 of 60 records are bad, more than onBadRecord.maxFraction 0.15 allows"):
        made(a_job(tmp_path, policy={"policy": "Skip", "maxFraction": 0.15}, text=text))
    assert len(seen) == 1  # the first shard has four batches, and the failure is in the second one


LATER_NUMBERS: dict[str, tuple[str, str, str, str, str]] = {
    "csv, a fraction": ("csv", "n,s\n1,x\n", "n,s\n1.5,x\n", "line 2: '1.5' is not a Int64 (column 'n')", '{name: "n", type: Float64}'),
    "csv, too large": (
        "csv", "n\n1.5\n", "n\n1e39\n", "line 2: 1e+39 is not a Float32 (column 'n')", '{name: "n", type: Float64}',
    ),
    "jsonl, a fraction": (
        "jsonl", '{"n": 1}\n', '{"n": 2}\n{"n": -1.5}\n', "line 2: '-1.5' is not a Int64 (column 'n')", '{name: "n", type: Float64}',
    ),
    "jsonl, a list": (
        "jsonl", '{"n": [1]}\n', '{"n": [1, 2.5]}\n', "line 1: '[1, 2.5]' is not a list of Int64 (column 'n')",
        '{name: "n", type: Float64, list: true}',
    ),
}  # fmt: skip


@pytest.mark.parametrize(("kind", "first", "later", "reason", "column"), LATER_NUMBERS.values(), ids=LATER_NUMBERS.keys())
def test_a_number_that_the_first_file_did_not_promise_names_both_files(
    tmp_path: Path, kind: str, first: str, later: str, reason: str, column: str
) -> None:
    (tmp_path / f"a.{kind}").write_text(first)
    (tmp_path / f"b.{kind}").write_text(later)
    reading = {"uris": [str(tmp_path / f"{name}.{kind}") for name in "ab"]} | ({"header": True} if kind == "csv" else {})
    written: dict[str, Any] = {"source": {kind: reading}, "output": {"uri": str(tmp_path / "out"), "format": "jsonl"}}
    with pytest.raises(BadData) as refused:
        made(parse_job(written))
    assert str(refused.value).startswith(f"{tmp_path}/b.{kind}, record ")
    assert str(refused.value).endswith(
        f": {reason}. The first rows of {tmp_path}/a.{kind} make the column a {reason.partition(' is not a ')[2].partition(' (')[0]}; "
        f"to read such numbers, list the columns in source.{kind}.columns, with {column}. "
        "Otherwise, set onBadRecord.policy: Skip to leave such records out."
    )


def test_the_column_of_the_advice_reads_the_numbers_of_both_files(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"n": 1}\n')
    (tmp_path / "b.jsonl").write_text('{"n": -1.5}\n')
    source = {"jsonl": {"uris": [str(tmp_path / "*.jsonl")], "columns": [{"name": "n", "type": "Float64"}]}}
    made(parse_job({"source": source, "output": {"uri": str(tmp_path / "out"), "format": "jsonl"}}))
    assert (tmp_path / "out/train.jsonl").read_text() == '{"n":1.0}\n{"n":-1.5}\n'


def test_a_date_among_whole_numbers_is_no_number(tmp_path: Path) -> None:
    job = a_job(tmp_path, policy={"policy": "Fail"}, text=b"1\n2024-01-05\n", source={"csv": {"uris": [str(tmp_path / "*.csv")]}})
    (tmp_path / "a.csv").write_text("1\n" * 30)
    (tmp_path / "b.csv").write_text("2024-01-05\n")
    with pytest.raises(BadData, match=r"'2024-01-05' is not a Int64 \(column '0'\)\. Set onBadRecord\.policy: Skip"):
        made(job)


@pytest.mark.parametrize("later", ['{"n": 99999999999999999999}', '{"n": -12345678901234567890}'])
def test_a_whole_number_that_float64_would_round_gets_no_column(tmp_path: Path, later: str) -> None:
    (tmp_path / "a.jsonl").write_text('{"n": 1}\n')
    (tmp_path / "b.jsonl").write_text(f"{later}\n")
    source = {"jsonl": {"uris": [str(tmp_path / "*.jsonl")]}}
    with pytest.raises(BadData, match=r"\d{20}' is not a Int64 \(column 'n'\)\. Set onBadRecord\.policy: Skip"):
        made(parse_job({"source": source, "output": {"uri": str(tmp_path / "out"), "format": "jsonl"}}))


def test_a_column_that_the_job_lists_is_not_said_to_be_inferred(tmp_path: Path) -> None:
    with pytest.raises(BadData, match=r"'1\.5' is not a Int64 \(column 'x'\)\. Set onBadRecord\.policy: Skip"):
        made(a_job(tmp_path, policy={"policy": "Fail"}, text=b"1,0\n1.5,0\n"))
