"""`spec.engine`: the sizes of its pods, and the sentences about fields that Spark or the operator would refuse."""

from typing import Any

import pytest

from dataprep_api.dataset import run_id
from dataprep_api.errors import SpecError
from dataprep_api.resources.job import DataPrepJob
from dataprep_api.spec import DataPrepJobSpec
from dataprep_api.spec.engine import Spark, size_in_bytes

EXECUTOR = {"instances": 2, "cores": 2, "memory": "4g"}
JOIN = {
    "join": {
        "keys": ["id"],
        "tables": [
            {"name": "left", "source": {"parquet": {"uris": ["s3://in/left/"]}}},
            {"name": "right", "source": {"parquet": {"uris": ["s3://in/right/"]}}},
        ],
    }
}


def parsed(**changes: Any) -> DataPrepJobSpec:  # Any: a spec parsed from YAML
    spec = {"source": JOIN, "output": {"uri": "s3://out/x"}} | changes
    return DataPrepJob.parse({"apiVersion": "dataprep.io/v1alpha1", "kind": "DataPrepJob", "metadata": {"name": "m"}, "spec": spec}).spec


def spark_of(**spark: Any) -> Spark:  # Any: fields parsed from YAML
    engine = parsed(engine={"spark": {"executor": EXECUTOR} | spark}).engine
    assert engine is not None
    return engine.spark


@pytest.mark.parametrize(
    ("size", "expected"),
    [("512m", 512 << 20), ("4g", 4 << 30), ("1025m", 1025 << 20)],
)
def test_sizes_are_spark_s(size: str, expected: int) -> None:
    assert size_in_bytes(size) == expected


@pytest.mark.parametrize("size", ["", "4", "4Gi", "4G", "0g", "1.5g", "512k", "4gb", " 4g"])
def test_other_sizes_are_refused(size: str) -> None:
    with pytest.raises(ValueError, match="expected a whole number of MiB or GiB in Spark's notation, such as 512m or 4g"):
        size_in_bytes(size)


@pytest.mark.parametrize(
    ("executor", "mebibytes"),
    [
        pytest.param({}, 4096 + 409, id="a tenth"),
        pytest.param({"memory": "1g"}, 1024 + 384, id="the least overhead"),
        pytest.param({"memory": "1g", "memoryOverhead": "200m"}, 1224, id="the job's overhead"),
    ],
)
def test_the_memory_of_an_executor_includes_its_overhead(executor: dict[str, object], mebibytes: int) -> None:
    assert spark_of(executor=EXECUTOR | executor).executor.total_bytes >> 20 == mebibytes


def test_the_driver_has_room_for_planning() -> None:
    assert spark_of().driver.total_bytes == 2 << 30


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        pytest.param({"executor": {"cores": 1, "memory": "1g"}}, "spec.engine.spark.executor.instances: is required", id="instances"),
        pytest.param({"executor": EXECUTOR | {"cores": 0}}, "spec.engine.spark.executor.cores: must be at least 1, got 0", id="cores"),
        pytest.param(
            {"executor": EXECUTOR | {"memory": "4Gi"}},
            "spec.engine.spark.executor.memory: expected a whole number of MiB or GiB in Spark's notation, such as 512m or 4g, got '4Gi'",
            id="a Kubernetes size",
        ),
        pytest.param(
            {"executor": EXECUTOR | {"memory": "400m"}}, "spec.engine.spark.executor.memory: must be at least 512m, got 400m", id="small"
        ),
        pytest.param({"driver": {"memory": "1m"}}, "spec.engine.spark.driver.memory: must be at least 512m, got 1m", id="small driver"),
        pytest.param(
            {"conf": {"spark.master": "local"}},
            "spec.engine.spark.conf: a job can't set 'spark.master'. Allowed settings: spark.executor.heartbeatInterval, ",
            id="master",
        ),
        pytest.param(
            {"conf": {"spark.shuffle.manager": "a.B"}}, "spec.engine.spark.conf: a job can't set 'spark.shuffle.manager'.", id="class"
        ),
        pytest.param(
            {"conf": {"spark.speculation": "true\nspark.plugins a.B"}},
            "spec.engine.spark.conf: spark.speculation must be a number, a size, a time, true or false",
            id="second line",
        ),
    ],
)
def test_a_fault_names_the_field_and_what_was_expected(changes: dict[str, object], fault: str) -> None:
    with pytest.raises(SpecError) as refused:
        spark_of(**changes)

    assert [str(each) for each in refused.value.faults if str(each).startswith(fault)], refused.value.faults


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"source": {"parquet": {"uris": ["s3://in/"]}}}, id="another source"),
        pytest.param(
            {"source": None, "script": {"command": ["a"], "outputs": ["*"]}, "output": {"uri": "s3://out/x", "format": "tfrecord"}},
            id="a script",
        ),
    ],
)
def test_only_a_join_has_an_engine(changes: dict[str, object]) -> None:
    with pytest.raises(SpecError, match="engine: spark joins tables, so it can be set only in a job with source.join"):
        parsed(**changes, engine={"spark": {"executor": EXECUTOR}})


def test_the_engine_is_no_part_of_the_run_id() -> None:
    with_spark, without = parsed(engine={"spark": {"executor": EXECUTOR}}), parsed()

    assert run_id.run_id(with_spark, inputs_sha256="0" * 64) == run_id.run_id(without, inputs_sha256="0" * 64)
