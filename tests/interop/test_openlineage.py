"""OpenLineage's own package builds every event that we send, and names data sets as we do."""

import json
from pathlib import Path
from typing import Any

import pytest
from tests.builders.jobs import run_job
from tests.builders.lineage_receiver import lineage_receiver
from tests.builders.specs import parse_job

import environments
from dataprep_api.lineage.names import data_set_name
from dataprep_converter.core.errors import BadData

pytestmark = pytest.mark.interop

SCRIPT = Path(__file__).parent / "readers/openlineage_events.py"
COLUMNS = [{"name": "n", "type": "Int64"}, {"name": "kind", "type": "String"}]
URIS = ["s3://bucket/day/a", "gs://bucket/day/a", "hdfs://namenode:8020/day/a", "abfss://box@account.dfs.core.windows.net/day/a", "/day/a"]


@pytest.fixture(scope="module")
def sent(tmp_path_factory: pytest.TempPathFactory) -> list[Any]:
    """The events of a run with bad records, of a run that fails, and of a copy that belongs to a pipeline."""
    folder = tmp_path_factory.mktemp("lineage")
    (folder / "rows.csv").write_text("1,a\n2,b\nthree,c\n")
    source = {"csv": {"uris": [f"{folder}/*.csv"], "columns": COLUMNS}}
    output = {"uri": str(folder / "out"), "format": "parquet"}
    with lineage_receiver() as received, pytest.MonkeyPatch.context() as patch:
        for name, value in received.settings().items():
            patch.setenv(name, value)
        run_job(parse_job({"source": source, "output": output, "onBadRecord": {"policy": "Skip"}}))
        with pytest.raises(BadData):
            run_job(parse_job({"source": source, "output": {**output, "uri": str(folder / "other")}}))
        patch.setenv("OPENLINEAGE_PARENT_ID", "argo/nightly.copy/3f5e83fa-3480-44ff-99c5-ff943904e5e8")
        copied = {"uri": str(folder / "copied"), "format": "copy"}
        run_job(parse_job({"source": {"dataset": {"uri": output["uri"]}}, "output": copied}))
    return received.events


@pytest.fixture(scope="module")
def said(sent: list[Any], tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The output of a script that uses OpenLineage's package."""
    path = tmp_path_factory.mktemp("events") / "events.jsonl"
    path.write_text("".join(f"{json.dumps(event)}\n" for event in sent))
    return json.loads(environments.run("openlineage", SCRIPT, [path]))


def without_empty(value: Any) -> Any:
    """A JSON value without the empty fields that the package adds."""
    if isinstance(value, dict):
        return {name: kept for name, each in value.items() if (kept := without_empty(each)) not in ({}, [])}
    return [without_empty(each) for each in value] if isinstance(value, list) else value


def test_the_package_builds_each_event(sent: list[Any], said: Any) -> None:
    assert [event["eventType"] for event in sent] == ["START", "COMPLETE", "START", "FAIL", "START", "COMPLETE"]
    assert [without_empty(event) for event in said["events"]] == [without_empty(event) for event in sent]


def test_the_events_have_the_facets_of_the_specification(sent: list[Any]) -> None:
    _, complete, _, fail, _, copied = sent
    (given,), (made,) = complete["inputs"], complete["outputs"]
    assert set(given["facets"]) == {"version"}
    assert set(given["inputFacets"]) == {"inputStatistics", "subset", "dataQualityAssertions"}
    assert set(made["facets"]) == {"version", "schema", "storage", "dataQualityMetrics"}
    assert set(made["outputFacets"]) == {"outputStatistics"}
    assert set(fail["run"]["facets"]) == {"processing_engine", "errorMessage"}
    assert set(copied["run"]["facets"]) == {"processing_engine", "parent"}
    assert copied["inputs"][0]["name"] == made["name"]


def test_the_package_names_data_sets_as_we_do(said: Any) -> None:
    ours = [data_set_name(uri) for uri in URIS]
    assert [[name.namespace, name.name] for name in ours] == said["names"]
