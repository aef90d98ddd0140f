"""The run id changes if and only if the bytes might change."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.builders.specs import parse_job

from dataprep_api.dataset.run_id import Part, content, fault_of_versions, run_id, versions
from dataprep_api.resources.job import DataPrepJob
from dataprep_api.spec import DataPrepJobSpec

Builder = Callable[[Mapping[str, object]], dict[str, Any]]
EXAMPLES = sorted((Path(__file__).parents[2] / "examples").glob("*.yaml"))


def id_of(job: dict[str, Any], inputs: str = "a") -> str:
    return run_id(DataPrepJob.parse(job).spec, inputs_sha256=inputs)


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"output.uri": "oss://bucket/mnist"}, id="where it goes"),
        pytest.param({"output.overwrite": "Always"}, id="overwrite"),
        pytest.param({"output.hdfs.replication": 2}, id="replication"),
        pytest.param({"workers.parallelism": 8}, id="parallelism"),
        pytest.param({"workers.onePod": "Never"}, id="onePod"),
        pytest.param({"workers.image": "other"}, id="image"),
        pytest.param({"workers.accelerator.policy": "Required"}, id="accelerator"),
        pytest.param({"suspend": True}, id="suspend"),
        pytest.param({"cleanup": [{"when": "Failed", "action": "DeletePods"}]}, id="cleanup"),
        pytest.param({"ttlSecondsAfterFinished": 5}, id="ttl"),
        pytest.param({"activeDeadlineSeconds": 5, "stepDeadlines": {"planSeconds": 5}}, id="deadlines"),
        pytest.param({"backoffLimit": 0, "backoffLimitPerIndex": 0, "maxFailedIndexes": 1}, id="retries"),
        pytest.param({"stores": [{"uriPrefix": "hdfs://", "user": "a", "secretRef": {"name": "b"}}]}, id="credentials"),
        pytest.param({"params": {"unused": "a"}}, id="a param that nothing uses"),
        pytest.param({"allowEmpty": True}, id="allowEmpty"),
        pytest.param({"output.format": "tfrecord", "onBadRecord.policy": "Fail"}, id="defaults written out"),
        pytest.param({"params": {"d": "/data"}, "source.idx.subsets.0.images": "${d}/train-images-idx3-ubyte.gz"}, id="params filled in"),
    ],
)
def test_what_leaves_the_bytes_alone_leaves_the_run_id_alone(a_job: Builder, changes: dict[str, object]) -> None:
    assert id_of(a_job(changes)) == id_of(a_job({}))


@pytest.mark.parametrize("example", EXAMPLES, ids=[example.name for example in EXAMPLES])
def test_a_field_at_its_default_does_not_enter_however_deep_it_lies(example: Path) -> None:
    """A field at its default doesn't change the run id, so releases can add fields to any model of the spec."""
    documents = [each for each in yaml.safe_load_all(example.read_text()) if each["kind"] == "DataPrepJob"]
    for spec in (DataPrepJob.parse(document).spec for document in documents):
        written_out = spec.model_dump(mode="json", by_alias=True, exclude_none=True)
        assert len(json.dumps(written_out)) > len(json.dumps(spec.model_dump(mode="json", by_alias=True, exclude_defaults=True)))
        assert content(DataPrepJobSpec.model_validate(written_out)) == content(spec)


def test_the_name_leaves_the_run_id_alone(a_job: Builder) -> None:
    assert id_of(a_job({}) | {"metadata": {"name": "other"}}) == id_of(a_job({}))


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"source.idx.subsets.0.images": "/other"}, id="source"),
        pytest.param({"features": [{"name": "image"}]}, id="features"),
        pytest.param({"labels": [{"name": "label"}]}, id="labels"),
        pytest.param({"transforms": [{"scale": {"columns": ["image"]}}]}, id="transforms"),
        pytest.param({"splits.into": [{"name": "train", "subset": "train"}]}, id="splits"),
        pytest.param({"shuffle": {"seed": 0}}, id="shuffle"),
        pytest.param({"onBadRecord.policy": "Skip"}, id="bad records"),
        pytest.param({"output.shards.count": 2}, id="shards"),
        pytest.param({"output.fileName": "{split}-{shard}"}, id="file names"),
        pytest.param({"output.tfrecord.compression": "Gzip"}, id="compression"),
    ],
)
def test_what_may_change_the_bytes_changes_the_run_id(a_job: Builder, changes: dict[str, object]) -> None:
    assert id_of(a_job(changes)) != id_of(a_job({}))


def test_other_inputs_are_another_run(a_job: Builder) -> None:
    assert id_of(a_job({}), inputs="b") != id_of(a_job({}), inputs="a")


def test_a_run_id_is_short_enough_for_a_label_and_a_folder(a_job: Builder) -> None:
    assert len(id_of(a_job({}))) == 16
    assert int(id_of(a_job({})), 16) >= 0


SPECS: dict[str, dict[str, Any]] = {
    "plain": {"source": {"csv": {"uris": ["/data"]}}, "output": {"uri": "/out", "format": "tfrecord"}},
    "dl4jDataset": {
        "source": {"csv": {"uris": ["/data"]}},
        "labels": [{"name": "y"}],
        "output": {"uri": "/out", "format": "dl4jDataset", "shards": {"count": 2}},
    },
    "copy": {"source": {"dataset": {"uri": "/data"}}, "output": {"uri": "/out", "format": "copy"}},
    "shuffled": {"source": {"csv": {"uris": ["/data"]}}, "shuffle": {"seed": 7}, "output": {"uri": "/out", "format": "tfrecord"}},
}
FIRST = {"plain": "93e210d97679d7d1", "dl4jDataset": "bf681988b6496c13", "copy": "4b1de8e2087b70ea", "shuffled": "ca91389bf2c9c9b7"}
"""Run ids as computed by the last release in which parts had no versions."""


def spec_of(name: str) -> DataPrepJobSpec:
    return parse_job(SPECS[name], name="a").spec


@pytest.mark.parametrize(("name", "expected"), [*FIRST.items()])
def test_what_only_uses_first_versions_has_the_run_id_it_had_before_there_were_parts(name: str, expected: str) -> None:
    assert run_id(spec_of(name), inputs_sha256="a", parts={}) == expected


def test_the_version_of_a_part_changes_the_run_ids_of_the_jobs_that_use_it_and_of_no_others() -> None:
    raised = {"shuffle": Part(version=2, is_used=lambda spec: spec.shuffle is not None)}
    assert [name for name in SPECS if versions(spec_of(name), parts=raised)] == ["shuffled"]
    spec = spec_of("shuffled")
    assert run_id(spec, inputs_sha256="a", parts=versions(spec, parts=raised)) != FIRST["shuffled"]


@pytest.mark.parametrize(
    ("made_by", "oldest", "expected"),
    [
        pytest.param({}, 1, None, id="an old rule that is still there"),
        pytest.param({"shuffle": 2}, None, None, id="this release's rule"),
        pytest.param(
            {},
            None,
            "was made by version 1 of shuffle, but this release uses version 2, which makes different records",
            id="an old rule that is gone",
        ),
        pytest.param({"shuffle": 3}, 1, "was made by version 3 of shuffle, but this release supports version 2", id="a newer rule"),
        pytest.param({"hash": 2}, 1, "was made by version 2 of hash, but this release supports no such part", id="a newer part"),
    ],
)
def test_versions_that_this_release_does_not_make_are_told(made_by: dict[str, int], oldest: int | None, expected: str | None) -> None:
    known = {"shuffle": Part(version=2, is_used=lambda spec: spec.shuffle is not None, oldest=oldest)}
    fault = fault_of_versions(made_by, spec_of("shuffled"), parts=known)
    assert fault == expected if expected is None else fault is not None and fault.startswith(expected)


def test_an_old_rule_that_a_job_does_not_use_is_no_matter() -> None:
    known = {"shuffle": Part(version=2, is_used=lambda spec: spec.shuffle is not None)}
    assert fault_of_versions({}, spec_of("plain"), parts=known) is None


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"format": "dl4jDataset"}, {"dl4jFolders": 2}),
        ({"format": "fileBatch"}, {"dl4jFolders": 2}),
        ({"format": "fileBatch", "fileName": "{split}-{shard}.{ext}"}, {}),
        ({"format": "dl4jDataset", "two": True}, {}),
        ({"format": "mapFile"}, {}),
        ({"format": "recordioProtobuf"}, {}),
    ],
    ids=["dl4jDataset", "fileBatch", "names of the user's own", "splits that had folders before", "another format", "records of rows"],
)
def test_folders_for_dl4j_are_a_rule_of_the_jobs_whose_files_they_name(changes: dict[str, Any], expected: dict[str, int]) -> None:
    output = {"uri": "/out"} | {name: value for name, value in changes.items() if name != "two"}
    splits = {"splits": {"into": [{"name": "train", "first": 5}, {"name": "test"}]}} if "two" in changes else {}
    written = {"source": {"wholeFile": {"uris": ["/data"]}}, "output": output} | splits
    job = parse_job(written, name="a")
    assert versions(job.spec) == expected


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"pin": "Count"}, {"sqlTimes": 2}),
        ({}, {}),
        ({"pin": "Count", "url": "sqlite:////data/a.db"}, {}),
    ],
    ids=["counted", "a digest tells by itself", "another database"],
)
@pytest.mark.parametrize("is_joined", [False, True], ids=["alone", "joined"])
def test_infinite_times_are_a_rule_of_the_jobs_that_only_count_rows(
    changes: dict[str, Any], expected: dict[str, int], is_joined: bool
) -> None:
    source: dict[str, Any] = {"sql": {"url": "postgresql://db/x", "query": "SELECT 1 AS id", "orderBy": ["id"]} | changes}
    if is_joined:
        tables = [{"name": "a", "source": {"arrow": {"uris": ["/a"]}}}, {"name": "b", "source": source}]
        source = {"join": {"keys": ["id"], "tables": tables}}
    written = {"source": source, "output": {"uri": "/out"}}
    job = parse_job(written, name="a")
    assert versions(job.spec) == expected | ({"joins": 2} if is_joined else {})


@pytest.mark.parametrize(
    ("source", "is_used"),
    [
        ({"csv": {"uris": ["/a"]}}, True),
        ({"jsonl": {"uris": ["/a"]}}, True),
        ({"text": {"uris": ["/a"]}}, True),
        ({"libsvm": {"uris": ["/a"]}}, True),
        ({"parquet": {"uris": ["/a"]}}, False),
        ({"join": {"keys": ["id"], "tables": [{"name": name, "source": {name: {"uris": ["/a"]}}} for name in ("parquet", "csv")]}}, True),
        ({"images": {"list": {"uri": "/a.csv", "pathColumn": "path", "columns": ["t"]}, "labelFrom": "None"}}, True),
        ({"images": {"uris": ["/a"]}}, False),
    ],
    ids=["csv", "jsonl", "text", "libsvm", "parquet", "a join", "a list of images", "images"],
)
def test_the_division_of_large_texts_is_a_rule_of_the_jobs_that_may_read_them(source: dict[str, Any], is_used: bool) -> None:
    job = parse_job({"source": source, "output": {"uri": "/out"}}, name="a")
    assert versions(job.spec).get("textUnits") == (2 if is_used else None)


@pytest.mark.parametrize("order_by", [None, ["day"]], ids=["rows", "sequences"])
def test_the_division_of_joined_records_is_a_rule_of_the_joins_that_may_be_made_in_memory(order_by: list[str] | None) -> None:
    tables = [{"name": name, "source": {"parquet": {"uris": ["/a"]}}} for name in "ab"]
    tables[1] |= {"orderBy": order_by} if order_by is not None else {}
    job = parse_job({"source": {"join": {"keys": ["id"], "tables": tables}}, "output": {"uri": "/out"}}, name="a")
    assert versions(job.spec).get("joins") == (2 if order_by is None else None)
