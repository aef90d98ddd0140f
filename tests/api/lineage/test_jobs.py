"""The kind, the inputs and the outputs of a job's runs in OpenLineage events, derived from the job's spec."""

from typing import Any

import pytest
from tests.builders.specs import parse_job

from dataprep_api.lineage.jobs import input_names, kind_of_job, output_names
from dataprep_api.lineage.names import DataSetName

CSV = {"csv": {"uris": ["s3://b/a/*.csv", "hdfs://n:8020/day"]}}
SQL = {"sql": {"url": "postgresql://me@host:5432/shop", "query": "SELECT * FROM orders", "orderBy": ["id"]}}
SQLITE = {"sql": {"url": "sqlite:////data/shop.db", "query": "SELECT * FROM orders", "orderBy": ["id"]}}
TABLE = {"table": {"uris": ["odps://project/tables/clicks/pt=1", "odps://project/tables/clicks/pt=2"]}}
OUTPUT = {"uri": "s3://b/out", "format": "parquet"}


@pytest.mark.parametrize(
    ("source", "names"),
    [
        (CSV, [("s3://b", "a"), ("hdfs://n:8020", "/day")]),
        (SQL, [("postgres://host:5432", "shop")]),
        (SQLITE, [("file", "/data/shop.db")]),
        (TABLE, [("odps://project", "clicks")]),
        ({"dataset": {"uri": "oss://b/set"}}, [("oss://b", "set")]),
    ],
    ids=["files", "a database", "a file of SQLite", "partitions of a table", "a data set"],
)
def test_the_inputs_are_those_of_the_source(source: dict[str, Any], names: list[tuple[str, str]]) -> None:
    spec = parse_job({"source": source, "output": OUTPUT}).spec
    assert list(dict.fromkeys(input_names(spec).values())) == [DataSetName(*name) for name in names]


def test_a_table_is_a_second_output() -> None:
    output = {**OUTPUT, "format": "arrow", "table": {"uri": "odps://project/tables/rows"}}
    spec = parse_job({"source": CSV, "output": output}).spec
    assert output_names(spec) == [DataSetName("s3://b", "out"), DataSetName("odps://project", "rows")]


def test_a_script_has_its_own_input() -> None:
    script = {"framework": "python:3.12", "command": "python3 make.py", "input": "s3://b/raw", "outputs": ["*.tfrecords"]}
    spec = parse_job({"script": script, "output": {"uri": "s3://b/out"}}).spec
    assert kind_of_job(spec) == "SCRIPT"
    assert list(input_names(spec).values()) == [DataSetName("s3://b", "raw")]


def test_a_copy_and_a_conversion_are_told_apart() -> None:
    copied = parse_job({"source": {"dataset": {"uri": "s3://b/set"}}, "output": {"uri": "s3://b/out", "format": "copy"}}).spec
    converted = parse_job({"source": CSV, "output": OUTPUT}).spec
    assert (kind_of_job(copied), kind_of_job(converted)) == ("COPY", "CONVERSION")
