"""Job builders for the API tests. They fill in the fields that a test doesn't set."""

import copy
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from dataprep_api.resources import status
from dataprep_api.resources.status import DataPrepJobStatus

NUMBER = 2**53
TIME = "2026-01-01T00:00:00Z"

MNIST: dict[str, Any] = {
    "apiVersion": "dataprep.io/v1alpha1",
    "kind": "DataPrepJob",
    "metadata": {"name": "mnist"},
    "spec": {
        "source": {
            "idx": {
                "subsets": [
                    {"name": "train", "images": "/data/train-images-idx3-ubyte.gz", "labels": "/data/train-labels-idx1-ubyte.gz"},
                    {"name": "test", "images": "/data/t10k-images-idx3-ubyte.gz", "labels": "/data/t10k-labels-idx1-ubyte.gz"},
                ]
            }
        },
        "output": {"uri": "hdfs://nn:9000/mnist-tfrecord"},
    },
}


@pytest.fixture(scope="session")
def a_job() -> Callable[[Mapping[str, object]], dict[str, Any]]:
    """Builds the MNIST job with changed fields. Keys are dotted paths below `spec`, as in `{"output.uri": "/out"}`. None removes a field."""

    def build(changes: Mapping[str, object]) -> dict[str, Any]:
        job = copy.deepcopy(MNIST)
        for path, value in changes.items():
            _put(job["spec"], path, value)
        return job

    return build


def _put(where: Any, path: str, value: object) -> None:
    # Any, because `where` is a mapping or a list, and its values are mappings, lists or scalars.
    *parents, last = path.split(".")
    for part in parents:
        where = where[int(part)] if isinstance(where, list) else where.setdefault(part, {})
    if value is None:
        del where[last]
    else:
        where[int(last) if isinstance(where, list) else last] = value


@pytest.fixture(scope="session")
def a_full_status() -> Callable[[str], DataPrepJobStatus]:
    """Builds a status in which every field is set, and every list and text has its maximum length.

    Texts consist of one repeated character. Words, such as reasons, are ASCII, because only the operator and Kubernetes choose them.
    """
    return _full_status


def _full_status(fill: str) -> DataPrepJobStatus:
    short, uri = fill * 256, fill * 2048
    failure = status.Failure(
        reason="x" * 64,
        message=fill * 1024,
        step="Shuffle",
        index=NUMBER,
        shard=short,
        input=uri,
        pod=short,
        exit_code=143,
        count=NUMBER,
        at=TIME,
    )
    return DataPrepJobStatus(
        observed_generation=NUMBER,
        phase="Committing",
        conditions=[
            status.Condition(
                type=f"{number}{'x' * 63}",
                status="Unknown",
                observed_generation=NUMBER,
                last_transition_time=TIME,
                reason="x" * 128,
                message=fill * 2048,
            )
            for number in range(8)
        ],
        start_time=TIME,
        completion_time=TIME,
        attempt=NUMBER,
        step="Shuffle",
        scan=status.ScanStatus(id="f" * 64, parts=NUMBER),
        run_id="f" * 64,
        plan_sha256="f" * 64,
        reused=False,
        tasks=NUMBER,
        shuffle_tasks=NUMBER,
        failed_indexes="1" * 2048,
        progress=status.Progress(
            percent=100,
            summary="x" * 64,
            shards=status.ShardProgress(total=NUMBER, done=NUMBER, active=NUMBER, failed=NUMBER),
            records=status.RecordProgress(total=NUMBER, in_=NUMBER, out=NUMBER, bad=NUMBER, filtered=NUMBER),
            bytes_in=NUMBER,
            bytes_out=NUMBER,
            records_per_second=1e300,
            bytes_per_second=1e300,
            estimated_seconds_remaining=NUMBER,
            eta="x" * 32,
            updated_at=TIME,
        ),
        ignored_files=NUMBER,
        splits=[status.SplitStatus(name=short, records=NUMBER, shards=NUMBER, bytes=NUMBER, expected=NUMBER, tolerance=NUMBER)] * 16,
        labels=[status.LabelStatus(feature=short, num_classes=NUMBER, classes=[short] * 1000)] * 8,
        output=status.OutputStatus(
            uri=uri, manifest_uri=uri, manifest_sha256="f" * 64, digest="f" * 64, files=NUMBER, records=NUMBER, bytes=NUMBER
        ),
        from_job=status.FromJob(uri=fill * 1024, digest="f" * 64),
        outputs=[status.OutputFile(uri=uri, split=short, bytes=NUMBER, records=NUMBER, sha256="f" * 64, replication=NUMBER)] * 50,
        failures=[failure] * 20,
        bad_records=[failure] * 20,
        warnings=[fill * 1024] * 10,
        evictions=status.Evictions(
            count=NUMBER, in_a_row=NUMBER, shards_done=NUMBER, last_time=TIME, at_last_time=NUMBER, reason="x" * 256
        ),
        rejected_spec="f" * 64,
        waiting_since=TIME,
        effective=status.Effective(
            parallelism=2**31 - 1,
            image="x" * 512,
            accelerator="x" * 64,
            memory="x" * 32,
            plan_memory="x" * 32,
            commit_memory="x" * 32,
        ),
        selector="x" * 256,
        child_prefix="x" * 63,
        timings=status.Timings(
            planning_seconds=1e300,
            running_seconds=1e300,
            committing_seconds=1e300,
            total_seconds=1e300,
            read_wait_seconds=1e300,
            bottleneck="x" * 256,
        ),
        code=status.CodeStatus(commit="f" * 40),
        runs=[
            status.Run(
                attempt=NUMBER,
                phase="Succeeded",
                reason="x" * 128,
                message=short,
                run_id="f" * 64,
                started_at=TIME,
                ended_at=TIME,
            )
        ]
        * status.MAX_RUNS,
        handled_retry=short,
    )
