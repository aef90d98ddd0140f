"""OpenLineage events of a run on this machine and of the steps' pods, sent to a real HTTP server."""

import functools
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.builders.jobs import run_job
from tests.builders.lineage_receiver import Received, lineage_receiver
from tests.builders.specs import parse_job

from dataprep_api.lineage import sending
from dataprep_api.names import LINEAGE_RUN
from dataprep_converter.core.errors import BadData
from dataprep_converter.inputs.access import Access
from dataprep_converter.steps import lineage

RUN_ID = "3f5e83fa-3480-44ff-99c5-ff943904e5e8"


@pytest.fixture
def received(monkeypatch: pytest.MonkeyPatch) -> Iterator[Received]:
    with lineage_receiver() as received:
        for name, value in received.settings().items():
            monkeypatch.setenv(name, value)
        yield received


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "a.csv").write_text("1,x\n2,y\n")
    (folder / "b.csv").write_text("3,z\n")
    return folder


def spec_of(rows: Path, **more: Any) -> dict[str, Any]:
    columns = [{"name": "n", "type": "Int64"}, {"name": "kind", "type": "String"}]
    source = {"csv": {"uris": [f"{rows}/*.csv"], "columns": columns}}
    return {"source": source, "output": {"uri": str(rows.parent / "out"), "format": "parquet"}, **more}


def test_a_run_sends_its_start_and_its_end(rows: Path, received: Received) -> None:
    plan, commit = run_job(parse_job(spec_of(rows)))

    start, complete = received.events
    assert received.kinds == ["START", "COMPLETE"]
    assert start["run"]["runId"] == complete["run"]["runId"]
    assert start["inputs"] == [{"namespace": "file", "name": str(rows), "facets": {}, "inputFacets": {}}]
    (given,), (made,) = complete["inputs"], complete["outputs"]
    statistics = given["inputFacets"]["inputStatistics"]
    assert (statistics["rowCount"], statistics["size"], statistics["fileCount"]) == (3, 12, 2)
    assert given["facets"]["version"]["datasetVersion"].startswith("sha256:")
    assert given["inputFacets"]["subset"]["inputCondition"]["locations"] == [f"{rows}/a.csv", f"{rows}/b.csv"]
    assert made["name"] == str(rows.parent / "out")
    assert made["facets"]["version"]["datasetVersion"] == plan.run_id
    fields = [(field["name"], field["type"]) for field in made["facets"]["schema"]["fields"]]
    assert fields == [("n", "int64"), ("kind", "bytes")]
    assert made["facets"]["dataQualityMetrics"]["columnMetrics"]["n"] == {"count": 3, "nullCount": 0, "min": 1, "max": 3}
    written = made["outputFacets"]["outputStatistics"]
    assert (written["rowCount"], written["size"], written["fileCount"]) == (3, commit.bytes_out, commit.files)


def test_the_version_of_an_input_changes_with_its_files(rows: Path, received: Received) -> None:
    job = parse_job(spec_of(rows) | {"output": {"uri": str(rows.parent / "out"), "overwrite": "Always"}})
    run_job(job)
    run_job(job)
    (rows / "b.csv").write_text("3,z\n4,z\n")
    run_job(job)

    first, again, changed = (
        event["inputs"][0]["facets"]["version"]["datasetVersion"] for event in received.events if event["eventType"] == "COMPLETE"
    )
    assert first == again != changed


def test_each_input_has_its_own_version(rows: Path, received: Received) -> None:
    more = rows.parent / "more"
    more.mkdir()
    (more / "c.csv").write_text("5,w\n")
    spec = spec_of(rows)
    spec["source"]["csv"]["uris"] = [f"{rows}/*.csv", str(more)]
    run_job(parse_job(spec))

    inputs = {given["name"]: given for given in received.events[-1]["inputs"]}
    assert {name: given["inputFacets"]["inputStatistics"]["rowCount"] for name, given in inputs.items()} == {str(rows): 3, str(more): 1}
    assert len({given["facets"]["version"]["datasetVersion"] for given in inputs.values()}) == 2


def test_many_files_have_the_digest_of_the_plan(rows: Path, received: Received, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lineage, "_MOST_UNITS", 1)
    run_job(parse_job(spec_of(rows)))

    (given,) = received.events[-1]["inputs"]
    assert len(given["facets"]["version"]["datasetVersion"]) == 64
    assert given["inputFacets"]["inputStatistics"]["rowCount"] == 3


def test_a_failed_run_sends_its_error(rows: Path, received: Received) -> None:
    (rows / "b.csv").write_text("three,z\n")
    with pytest.raises(BadData) as raised:
        run_job(parse_job(spec_of(rows)))

    assert received.kinds == ["START", "FAIL"]
    assert received.events[-1]["run"]["facets"]["errorMessage"]["message"] == str(raised.value)
    assert received.events[-1]["inputs"][0]["facets"]["version"]


def test_an_interrupted_run_is_aborted(rows: Path, received: Received) -> None:
    with pytest.raises(KeyboardInterrupt), lineage.of_run(parse_job(spec_of(rows)), Access()):
        raise KeyboardInterrupt
    assert received.kinds == ["START", "ABORT"]


def test_a_reused_data_set_is_an_output(rows: Path, received: Received) -> None:
    job = parse_job(spec_of(rows) | {"output": {"uri": str(rows.parent / "out"), "overwrite": "IfChanged"}})
    run_job(job)
    run_job(job)

    assert received.kinds == ["START", "COMPLETE"] * 2
    first, second = (event for event in received.events if event["eventType"] == "COMPLETE")
    assert first["run"]["runId"] != second["run"]["runId"]
    assert first["outputs"] == second["outputs"]


def test_bad_records_are_told(rows: Path, received: Received) -> None:
    (rows / "b.csv").write_text("three,z\n")
    run_job(parse_job(spec_of(rows, onBadRecord={"policy": "Skip"})))

    (assertion,) = received.events[-1]["inputs"][0]["inputFacets"]["dataQualityAssertions"]["assertions"]
    assert (assertion["success"], assertion["actual"]) == (False, "1 bad record")


def test_a_silent_receiver_holds_nothing_up(rows: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setattr(sending, "Sender", functools.partial(sending.Sender, request_seconds=60, close_seconds=0.05))
    with lineage_receiver(silent=threading.Event()) as received:
        for name, value in received.settings().items():
            monkeypatch.setenv(name, value)
        _, commit = run_job(parse_job(spec_of(rows)))
    assert commit.records.out == 3
    assert "doesn't answer" in caplog.text


def test_an_event_that_cannot_be_made_fails_no_run(
    rows: Path, received: Received, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("no statistics")

    monkeypatch.setattr(lineage, "_outputs", broken)
    _, commit = run_job(parse_job(spec_of(rows)))
    assert commit.records.out == 3
    assert "a lineage event (COMPLETE) could not be made: RuntimeError: no statistics" in caplog.text
    assert received.events == []


def test_a_step_sends_what_it_knows_under_the_run_that_the_operator_named(
    rows: Path, received: Received, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(LINEAGE_RUN, RUN_ID)
    monkeypatch.setenv("OPENLINEAGE_NAMESPACE", "team-a")
    job = parse_job(spec_of(rows))
    with lineage.of_step(job, Access()):
        pass
    with pytest.raises(BadData), lineage.of_step(job, Access()):
        raise BadData("bad")
    assert received.kinds == ["RUNNING"]
    assert received.events[0]["run"]["runId"] == RUN_ID
    assert received.events[0]["job"]["namespace"] == "team-a"


def test_without_a_name_from_the_operator_a_step_sends_nothing(rows: Path, received: Received) -> None:
    with lineage.of_step(parse_job(spec_of(rows)), Access()):
        pass
    assert received.events == []
