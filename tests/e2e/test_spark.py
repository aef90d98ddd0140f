"""Jobs whose tables are joined by a Spark cluster in one Indexed Job (`engine.spark`)."""

import base64
import logging
import os
import time

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.e2e.restricted_pods import assert_without_rights
from tests.e2e.slow_jobs import held_writes
from tests.e2e.spark_clusters import (
    EXECUTORS,
    FOLDER,
    NAME,
    RANGES,
    SECONDS,
    digests,
    joined_job,
    kill,
    log_of,
    pods_by_index,
    secret_of,
    small_tables,
    until,
    until_held,
)
from tests.secret_forms import forms_of

from workbench.installation import Installation
from workbench.jobs import Document, Namespace
from workbench.stores import BUCKET, Stores

logger = logging.getLogger(__name__)
pytestmark = [pytest.mark.exclusive, pytest.mark.nightly, pytest.mark.usefixtures("spark_image")]

ROWS_AT_ONCE = 16_384
MEBIBYTES = int(os.environ.get("DATAPREP_TEST_SPARK_MEBIBYTES") or 64)
"""The size of each table of the last test."""
LONG_SECONDS = SECONDS + 4 * MEBIBYTES
"""How long the last test waits for a step."""


def joined_here(
    namespace: Namespace, stores: Stores, source: Document, *, in_shared_folder: bool = False, seconds: float = SECONDS
) -> tuple[str, list[str]]:
    """The run id and the digests of a job whose tables are joined without Spark."""
    namespace.apply(joined_job(namespace, stores, source, name="here", spark=None, in_shared_folder=in_shared_folder))
    status = namespace.wait_phase("here", "Succeeded", seconds=seconds)
    return status["runId"], digests(namespace, "here")


def files(namespace: Namespace, stores: Stores) -> list[str]:
    """The files of joined rows in the output's store."""
    return [key for key in stores.oss.keys(BUCKET, f"{namespace.name}-{NAME}/{FOLDER}") if key.endswith(".arrow")]


def test_three_pods_without_rights_join_tables(namespace: Namespace, stores: Stores, operator: Installation) -> None:
    """The namespace enforces Pod Security `restricted`.

    The cluster refuses a pod with another secret, and the secret appears only in the Secret object.
    """
    source = small_tables(namespace, stores)
    with held_writes(stores, namespace, RANGES):
        namespace.apply(joined_job(namespace, stores, source))
        until_held(namespace, stores)
        pods = pods_by_index(namespace)
        assert sorted(pods) == list(range(1 + EXECUTORS))
        assert_without_rights(namespace, list(pods.values()))
        namespace.apply(*stranger(pods[1]))
        until(lambda: "Authentication failed" in log_of(namespace, "stranger"), namespace, what="the stranger's refusal")
        assert "Successfully registered" not in log_of(namespace, "stranger")
        stranger_ip = namespace.get("pods", "stranger")["status"]["podIP"]
        namespace.kubectl("delete", "pod", "stranger", "--grace-period=0", "--force")
        logged = {name: log_of(namespace, pod["metadata"]["name"]) for name, pod in (("driver", pods[0]), ("worker", pods[1]))}
    namespace.wait_phase(NAME, "Succeeded", seconds=SECONDS)
    assert logged["driver"].count("Registering worker") == EXECUTORS
    assert f"Registering worker {stranger_ip}" not in logged["driver"]

    assert files(namespace, stores) == []
    assert (namespace.status(NAME)["runId"], digests(namespace)) == joined_here(namespace, stores, source)
    secret = secret_of(namespace)
    places = logged | {
        "objects": namespace.kubectl("get", "dataprepjobs,jobs,pods,services,configmaps,events", "--output=json"),
        "operator": operator.logs(),
        "output": "\n".join(stores.oss.read(BUCKET, key).decode("latin-1") for key in stores.oss.keys(BUCKET, namespace.name)),
    }
    [encoded] = secret["data"].values()
    forms = forms_of(base64.b64decode(encoded).decode())
    assert {place for place, text in places.items() if any(form in text for form in forms)} == set()

    namespace.kubectl("delete", "dpj", NAME)
    leftovers = ("get", "pods,jobs,services,secrets", f"--selector=dataprep.io/job={NAME}", "--output=name")
    deadline = time.monotonic() + 60
    while left := namespace.kubectl(*leftovers):
        assert time.monotonic() < deadline, left
        time.sleep(0.5)


def stranger(pod: Document) -> list[Document]:
    """A copy of a worker's pod that belongs to no Job, and the copy's Secret, which contains another secret."""
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "wrong"}, "stringData": {"secret": "nobodys-secret-0123456789"}}
    spec = {key: value for key, value in pod["spec"].items() if key not in ("nodeName", "hostname", "subdomain")}
    [container] = spec["containers"]
    spec["containers"] = [container | {"args": [*container["args"], "--index=9"]}]
    spec["volumes"] = [
        volume | ({"secret": {"secretName": "wrong"}} if volume["name"] == "dataprep-spark" else {}) for volume in spec["volumes"]
    ]
    return [secret, {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "stranger"}, "spec": spec}]


def test_killed_executors_and_a_killed_driver_change_no_byte(namespace: Namespace, stores: Stores) -> None:
    """All executors are killed, and then the driver, while an executor writes the rows of the second table.

    The next driver keeps the files that were already written.
    """
    source = small_tables(namespace, stores)
    with held_writes(stores, namespace, RANGES, skip=1):
        namespace.apply(joined_job(namespace, stores, source))
        before = until_held(namespace, stores)
        [first] = files(namespace, stores)
        kill(namespace, *range(1, 1 + EXECUTORS))
        before = until_held(namespace, stores, since=before)
        kill(namespace, 0)
        until_held(namespace, stores, since=before)
        assert first in files(namespace, stores)
    namespace.wait_phase(NAME, "Succeeded", seconds=SECONDS)
    assert (namespace.status(NAME)["runId"], digests(namespace)) == joined_here(namespace, stores, source)
    assert files(namespace, stores) == []


def test_a_skewed_join_by_small_executors_gives_the_same_bytes(namespace: Namespace, stores: Stores) -> None:
    """A key has 30 % of the rows of each table. Spark joins the tables because they are larger than the driver's memory for them.

    An executor is killed once rows of the first table are stored, and the driver is killed once rows of the second table are stored.
    """
    source = skewed_tables(namespace, stores)
    spark = {"executor": {"instances": EXECUTORS, "cores": 1, "memory": "768m"}, "driver": {"memory": "768m", "memoryOverhead": "384m"}}
    began = time.monotonic()
    namespace.apply(joined_job(namespace, stores, source, spark=spark, in_shared_folder=True))
    until_laid_down(namespace, stores, "t0")
    logger.info("%d MiB a side: an executor is killed after %.0f s", MEBIBYTES, time.monotonic() - began)
    kill(namespace, 1)
    until_laid_down(namespace, stores, "t1")
    logger.info("the driver is killed after %.0f s", time.monotonic() - began)
    kill(namespace, 0)
    status = namespace.wait_phase(NAME, "Succeeded", seconds=LONG_SECONDS)
    logger.info("done after %.0f s", time.monotonic() - began)
    assert (status["runId"], digests(namespace)) == joined_here(namespace, stores, source, in_shared_folder=True, seconds=LONG_SECONDS)


def until_laid_down(namespace: Namespace, stores: Stores, stream: str) -> None:
    """Waits until executors have stored a file of this stream in the shared folder."""
    folder = stores.volume / f"{namespace.name}-{NAME}"
    until(lambda: any(folder.glob(f"{FOLDER}*/{stream}-*.arrow")), namespace, what=f"rows of {stream}", seconds=LONG_SECONDS)


def skewed_tables(namespace: Namespace, stores: Stores) -> Document:
    """Writes two tables of MEBIBYTES each to the shared folder, with rows of a KiB. Returns the source that joins them.

    Each key gives one record, because only one of its rows in each table is used. So there are 70 % as many records as rows.
    """
    folder = stores.volume / namespace.name
    folder.mkdir()
    folder.chmod(0o755)
    rows, random = MEBIBYTES << 10, np.random.default_rng(7)
    skewed = np.concatenate([np.zeros(rows * 3 // 10, np.int64), np.arange(rows - rows * 3 // 10)])
    for name in "ab":
        keys = random.permutation(skewed)
        columns: dict[str, pa.DataType] = {"id": pa.int64(), name: pa.binary()}
        schema = pa.schema(columns)
        with pq.ParquetWriter(folder / f"{name}.parquet", schema, compression="none", use_dictionary=False) as file:
            for first in range(0, rows, ROWS_AT_ONCE):
                ids = keys[first : first + ROWS_AT_ONCE]
                values = [random.bytes(1024) for _ in ids]
                file.write_batch(pa.record_batch([pa.array(ids), pa.array(values)], schema=schema))
    tables = [
        {"name": name, "source": {"parquet": {"uris": [f"/data/{folder.name}/{name}.parquet"]}}, "duplicates": used}
        for name, used in (("a", "First"), ("b", "Last"))
    ]
    return {"join": {"keys": ["id"], "tables": tables}}
