"""The run id changes when the bytes may change, and only then."""

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from dataprep_api.job import DataPrepJob
from dataprep_api.run_id import run_id

Builder = Callable[[Mapping[str, object]], dict[str, Any]]


def id_of(job: dict[str, Any], inputs: str = "a") -> str:
    return run_id(DataPrepJob.parse(job).spec, inputs_sha256=inputs)


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"output.uri": "oss://bucket/mnist"}, id="where it goes"),
        pytest.param({"output.overwrite": "Always"}, id="overwrite"),
        pytest.param({"output.hdfs.replication": 2}, id="replication"),
        pytest.param({"workers.parallelism": 8}, id="parallelism"),
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
