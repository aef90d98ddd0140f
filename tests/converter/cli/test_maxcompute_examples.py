"""The examples and pages for MaxCompute work as described when they run against the fake service."""

import importlib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import yaml
from tests.converter.cli.commandline import EXAMPLES, ROOT, code_of

from dataprep_converter.inputs.access import Access
from dataprep_converter.tools.verification import verify
from storeservers.odps import FakeMaxCompute, rows_of
from workbench.example_inputs import iris


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeMaxCompute]:
    """A fake MaxCompute. Its key is in the environment, because commands outside a cluster don't read Secrets."""
    # On a busy machine, the import alone takes most of the preflight's time limit.
    importlib.import_module("odps")
    with FakeMaxCompute() as fake:
        monkeypatch.setenv("ODPS_ACCESS_ID", fake.access_id)
        monkeypatch.setenv("ODPS_ACCESS_KEY", fake.secret)
        yield fake


def run_here(document: dict[str, Any], fake: FakeMaxCompute, folder: Path) -> Path:
    """Runs a job that uses the fake for MaxCompute and a local folder for OSS. Returns its output."""
    spec = document["spec"]
    spec["params"] = spec.get("params", {}) | {"output": str(folder / "out")}
    spec["output"]["uri"] = str(folder / "out")
    spec["stores"] = [store | {"endpoint": fake.endpoint} for store in spec["stores"] if store["uriPrefix"].startswith("odps://")]
    for store in spec["stores"]:
        store.pop("tunnelEndpoint", None)
    (folder / "job.yaml").write_text(yaml.safe_dump(document))
    assert code_of("run", folder / "job.yaml") == 0
    return folder / "out"


def test_the_example_of_a_table_makes_150_records_of_iris(fake: FakeMaxCompute, tmp_path: Path) -> None:
    document = yaml.safe_load((EXAMPLES / "table-maxcompute.yaml").read_text())
    names = document["spec"]["source"]["table"]["selectedCols"]
    cells = np.loadtxt(iris(tmp_path), delimiter=",", skiprows=1)
    flowers = pa.table({name: cells[:, number] for number, name in enumerate(names[:4])} | {names[4]: cells[:, 4].astype(np.int64)})
    fake.make("pai_iris", dict.fromkeys(names[:4], "double") | {names[4]: "bigint"}, flowers.schema, project="my_project")
    fake.fill("pai_iris", rows_of(flowers), project="my_project")
    output = run_here(document, fake, tmp_path)
    assert verify(str(output), Access()).records_out == 150


def sales(fake: FakeMaxCompute, keys: list[str], columns: dict[str, pa.DataType]) -> pa.Schema:
    schema = pa.schema(list(columns.items()))
    kinds: dict[pa.DataType, str] = {pa.float64(): "double", pa.int64(): "bigint", pa.string(): "string"}
    fake.make("sales", {field.name: kinds[field.type] for field in schema}, schema, keys=keys, project="my_project")
    return schema


def test_the_example_of_rows_fills_a_partition(fake: FakeMaxCompute, tmp_path: Path) -> None:
    document = yaml.safe_load((EXAMPLES / "rows-maxcompute.yaml").read_text())
    sales(fake, ["pt"], {"amount": pa.float64(), "age": pa.int64(), "city": pa.string()})
    (tmp_path / "a.csv").write_text("amount,age,city\n1.5,30,Berlin\n2.5,,Hamburg\n")
    document["spec"]["source"]["csv"]["uris"] = [str(tmp_path / "*.csv")]
    run_here(document, fake, tmp_path)
    assert fake.rows("sales", partition="pt=20260101", project="my_project").to_pylist() == [
        {"amount": 1.5, "age": 30, "city": "Berlin"},
        {"amount": 2.5, "age": -1, "city": "Hamburg"},
    ]


def test_the_page_of_the_source_runs_as_it_stands(fake: FakeMaxCompute, tmp_path: Path) -> None:
    page = (ROOT / "docs/sources/table.md").read_text()
    found = re.search(r"```yaml\n(.*?)```", page, re.DOTALL)
    assert found is not None
    schema = sales(fake, ["pt", "region"], {"amount": pa.float64(), "age": pa.int64(), "churned": pa.int64(), "name": pa.string()})
    for day in ("20260101", "20260102"):
        rows = pa.table({"amount": [1.0, None], "age": [20, 30], "churned": [0, 1], "name": ["a", "b"]}, schema=schema)
        fake.fill("sales", rows_of(rows), partition=f"pt={day},region=cn", project="my_project")
    spec = yaml.safe_load(found[1]) | {"output": {}}
    document = {"apiVersion": "dataprep.io/v1alpha1", "kind": "DataPrepJob", "metadata": {"name": "page"}, "spec": spec}
    assert verify(str(run_here(document, fake, tmp_path)), Access()).records_out == 4
