"""The main use case: MNIST's IDX files to TFRecord with `kubectl apply`. Every store gets the same bytes."""

import hashlib
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from tests.builders.jobs import run_job

from workbench import mnist
from workbench.jobs import Document, Namespace, condition
from workbench.stores import BUCKET, Stores, a_job, mount

FASHION = Path("/usr/share/datasets/fashion-mnist")


def assert_is_the_data_set(status: Document, files: Mapping[str, mnist.Expected] = mnist.FILES) -> None:
    assert status["output"]["records"] == 70_000
    assert status["output"]["bytes"] == 62_370_000
    assert {Path(o["uri"]).name: (o["records"], o["bytes"], o["sha256"]) for o in status["outputs"]} == {
        name: (file.records, file.size, file.sha256) for name, file in files.items()
    }
    assert {split["name"]: split["records"] for split in status["splits"]} == {"train": 55_000, "validation": 5_000, "test": 10_000}
    assert condition(status, "Complete")["status"] == "True"


def test_mnist_on_hdfs_has_the_sizes_hashes_replication_and_permission(namespace: Namespace, stores: Stores, digits_on_hdfs: str) -> None:
    """Each step has its own pods."""
    output = "/mnist-tfrecord"
    namespace.apply(a_job(stores, name="mnist", source=digits_on_hdfs, output=f"{stores.hdfs.uri}{output}", workers__parallelism=4))
    status = namespace.wait_phase("mnist", "Succeeded")

    assert_is_the_data_set(status)
    visible = {Path(entry.path).name: entry for entry in stores.hdfs.ls(output) if not Path(entry.path).name.startswith("_")}
    assert {name: entry.size for name, entry in visible.items()} == {name: file.size for name, file in mnist.FILES.items()}
    assert {(entry.replication, entry.permission) for entry in visible.values()} == {(2, "640")}
    assert {file["replication"] for file in status["outputs"]} == {2}
    for name, file in mnist.FILES.items():
        assert hashlib.sha256(stores.hdfs.read(f"{output}/{name}")).hexdigest() == file.sha256
    success = json.loads(stores.hdfs.read(f"{output}/_SUCCESS"))
    assert success["sha256"] == status["output"]["manifestSha256"]
    assert hashlib.sha256(stores.hdfs.read(f"{output}/{success['manifest']}")).hexdigest() == success["sha256"]
    leftovers = [entry.path for entry in stores.hdfs.files(output) if Path(entry.path).name.startswith(".")]
    assert leftovers == []


def read_oss(stores: Stores) -> Callable[[str], bytes]:
    return lambda name: stores.oss.read(BUCKET, f"mnist/{name}")


def read_s3(stores: Stores) -> Callable[[str], bytes]:
    return lambda name: stores.s3.read(BUCKET, f"mnist/{name}")


@pytest.mark.parametrize(("scheme", "reader"), [pytest.param("oss", read_oss, id="oss"), pytest.param("s3", read_s3, id="s3")])
@pytest.mark.parametrize(
    "one_pod", [pytest.param(True, id="in one pod"), pytest.param(False, id="in three steps", marks=pytest.mark.nightly)]
)
def test_mnist_on_an_object_store_has_the_same_hashes(
    namespace: Namespace,
    stores: Stores,
    digits_on_hdfs: str,
    scheme: str,
    reader: Callable[[Stores], Callable[[str], bytes]],
    one_pod: bool,
) -> None:
    namespace.apply(a_job(stores, name="mnist", source=digits_on_hdfs, output=f"{scheme}://{BUCKET}/mnist", one_pod=one_pod))
    assert_is_the_data_set(namespace.wait_phase("mnist", "Succeeded"))
    for name, file in mnist.FILES.items():
        assert hashlib.sha256(reader(stores)(name)).hexdigest() == file.sha256


def test_a_small_job_is_one_pod_and_writes_the_bytes_of_three_steps(namespace: Namespace, stores: Stores, digits_on_s3: str) -> None:
    folders = {name: f"{namespace.name}-{name}" for name in ("one", "steps")}
    for name, folder in folders.items():
        namespace.apply(a_job(stores, name=name, source=digits_on_s3, output=f"s3://{BUCKET}/{folder}", one_pod=name == "one"))
    one, steps = (namespace.wait_phase(name, "Succeeded") for name in folders)

    assert_is_the_data_set(one)
    assert [pod["metadata"]["labels"]["dataprep.io/step"] for pod in namespace.pods("one")] == ["plan"]
    assert {pod["metadata"]["labels"]["dataprep.io/step"] for pod in namespace.pods("steps")} == {"plan", "convert", "commit"}
    assert "reused" not in one
    assert [one["output"][field] for field in ("manifestSha256", "digest")] == [
        steps["output"][field] for field in ("manifestSha256", "digest")
    ]
    counts = ("percent", "summary", "shards", "records", "bytesIn", "bytesOut")
    assert [one["progress"][count] for count in counts] == [steps["progress"][count] for count in counts]
    assert (one["progress"]["percent"], one["progress"]["records"]["out"]) == (100, 70_000)
    assert {"planningSeconds", "runningSeconds", "committingSeconds"} <= set(one["timings"])
    events = namespace.events("one")
    assert {"Planning", "Planned", "Completed"} <= {reason for reason, _ in events}
    # The pod's first report comes after a second. On a quick machine, all shards might be finished by then.
    assert {message for reason, message in events if reason in ("Converting", "Committing")} <= {
        "The pod of the plan step writes the shards of this small job.",
        "The pod of the plan step checks every shard of this small job and writes the manifest.",
    }
    files = {
        name: sorted(key.removeprefix(f"{folder}/") for key in stores.s3.keys(BUCKET, f"{folder}/")) for name, folder in folders.items()
    }
    assert files["one"] == files["steps"]
    for file in files["one"]:
        # A shard's report names the pod that made the shard, and says how long the pod took.
        if "/reports/" not in file:
            # Some files contain addresses of the data set's own files.
            one_file, steps_file = (stores.s3.read(BUCKET, f"{each}/{file}").replace(each.encode(), b"") for each in folders.values())
            assert one_file == steps_file, file


def test_mnist_on_a_mounted_volume_has_the_same_hashes(namespace: Namespace, stores: Stores, digits: Path) -> None:
    volume = mount(namespace, stores)
    job = a_job(stores, name="mnist", source=f"/data/{digits.name}", output=f"/data/{namespace.name}", one_pod=True, **volume)
    namespace.apply(job)
    assert_is_the_data_set(namespace.wait_phase("mnist", "Succeeded"))
    for name, file in mnist.FILES.items():
        assert hashlib.sha256((stores.volume / namespace.name / name).read_bytes()).hexdigest() == file.sha256


def test_fashion_mnist_from_debian_has_the_hashes_of_bytes_written_by_hand(namespace: Namespace, stores: Stores) -> None:
    assert FASHION.is_dir(), "the tests need Debian's package dataset-fashion-mnist"
    stores.hdfs.mkdirs("/fashion")
    for file in sorted(FASHION.glob("*.gz")):
        stores.hdfs.write(f"/fashion/{file.name}", file.read_bytes())
    output = "/fashion-tfrecord"
    namespace.apply(a_job(stores, name="fashion", source=f"{stores.hdfs.uri}/fashion", output=f"{stores.hdfs.uri}{output}", one_pod=True))
    assert_is_the_data_set(namespace.wait_phase("fashion", "Succeeded"), mnist.FASHION_FILES)
    for name, expected in mnist.FASHION_FILES.items():
        assert hashlib.sha256(stores.hdfs.read(f"{output}/{name}")).hexdigest() == expected.sha256


TRAIN_SHARD_BYTES = {
    1: {49_005_000},
    2: {24_502_500},
    4: {12_251_250},
    7: {7_000_587, 7_001_478},
    8: {6_125_625},
    10: {4_900_500},
    16: {3_062_367, 3_063_258},
}
NAMES = {"output__fileName": "{split}-{shard}-of-{shards}.{ext}"}
WORKERS = {"n1": 0, "n7": 4, "n16": 1, "target": 0}
"""The jobs on the cluster, each with its number of workers. A job with 0 workers is a single pod."""


@pytest.mark.long
@pytest.mark.parametrize(
    "jobs", [pytest.param(WORKERS, id="some workers"), pytest.param({"target": 4}, id="target with workers", marks=pytest.mark.nightly)]
)
def test_shard_counts_and_parallelism_keep_the_bytes(
    namespace: Namespace, stores: Stores, digits: Path, tmp_path: Path, jobs: Mapping[str, int]
) -> None:
    """For each number of shards, the bytes are the same with one pod, with a parallelism of 1 or 4, and on this machine."""
    volume = mount(namespace, stores)
    wanted: dict[str, dict[str, Any]] = {name: {"targetSize": "8Mi"} if name == "target" else {"count": int(name[1:])} for name in jobs}
    for name, workers in jobs.items():
        changes = (volume | NAMES) | {
            "output__shards": wanted[name],
            "workers__parallelism": max(1, workers),
            # At most one pod runs on each node at a time, to leave room for other tests' pods.
            "workers__resources__requests__cpu": "1",
        }
        job = a_job(
            stores, name=name, source=f"/data/{digits.name}", output=f"/data/{namespace.name}-{name}", one_pod=workers == 0, **changes
        )
        namespace.apply(job)
    # These conversions run locally while the cluster is busy.
    for name, shards in wanted.items():
        make_here(stores, digits, tmp_path / name, shards)
    for name, workers in jobs.items():
        namespace.wait_phase(name, "Succeeded", seconds=900)
        assert bool(namespace.pods(name, step="convert")) == (workers > 0)
        on_cluster, here = (
            {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in folder.glob("*.tfrecords")}
            for folder in (stores.volume / f"{namespace.name}-{name}", tmp_path / name)
        )
        assert on_cluster == here


@pytest.mark.nightly
@pytest.mark.parametrize("count", [2, 4, 8, 10])
def test_more_shard_counts_keep_the_bytes(stores: Stores, digits: Path, tmp_path: Path, count: int) -> None:
    make_here(stores, digits, tmp_path, {"count": count})


def make_here(stores: Stores, digits: Path, folder: Path, shards: Mapping[str, Any]) -> None:
    """Makes the data set locally, from the same YAML, and checks its bytes."""
    run_here(a_job(stores, name="here", source=str(digits), output=str(folder), output__shards=shards, **NAMES))
    for whole, expected in mnist.FILES.items():
        joined = b"".join(file.read_bytes() for file in sorted(folder.glob(f"{Path(whole).stem}-*")))
        assert hashlib.sha256(joined).hexdigest() == expected.sha256
    if "count" in shards:
        assert {file.stat().st_size for file in folder.glob("train-*")} == TRAIN_SHARD_BYTES[shards["count"]]


def run_here(job: Document) -> None:
    """Runs the same YAML locally."""
    from dataprep_api.resources.job import DataPrepJob

    run_job(DataPrepJob.parse(job), workers=2)
