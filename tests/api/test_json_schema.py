"""The JSON Schema for editors is current, accepts every document that the models accept, and names the fields that the models refuse."""

import functools
import json
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
import yaml

from dataprep_api import CRON_KIND, KIND, PROFILE_KIND
from dataprep_api.generate import json_schema

ROOT = Path(__file__).parents[2]
SCHEMA = json.loads((ROOT / json_schema.FILE).read_text())
JOBS = [
    pytest.param(document, id=file.name)
    for file in sorted((ROOT / "examples").glob("*.yaml"))
    for document in yaml.safe_load_all(file.read_text())
    if document and document.get("kind") in (KIND, CRON_KIND, PROFILE_KIND)
]


def a_job() -> Any:  # Any: YAML
    return deepcopy(yaml.safe_load((ROOT / "examples/csv-local.yaml").read_text()))


@functools.cache
def validator() -> Any:  # Any: jsonschema ships no types
    # Imported here, because otherwise each process that collects tests would spend two seconds on this import.
    import jsonschema  # type: ignore[import-untyped]

    return jsonschema.Draft202012Validator(SCHEMA)


def faults(document: object) -> list[str]:
    return [f"{error.json_path}: {error.message}" for error in validator().iter_errors(document)]


def test_the_committed_schema_is_current() -> None:
    assert (ROOT / json_schema.FILE).read_text() == json_schema.text(), "run `make generate`"
    validator().check_schema(SCHEMA)


@pytest.mark.parametrize("document", JOBS)
def test_every_example_is_valid(document: object) -> None:
    assert faults(document) == []


def test_a_param_may_be_the_value_of_any_field_and_a_field_may_be_empty() -> None:
    job = a_job()
    job["spec"]["output"] |= {"shards": {"count": "${shards}"}, "format": "${format}"}
    job["spec"]["shuffle"] = None
    assert faults(job) == []
    job["spec"]["output"]["shards"] = {"targetSize": "${size}"}
    assert faults(job) == []


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("shard", 1, "$.spec.output: Additional properties are not allowed ('shard' was unexpected)"),
        ("shards", {"count": 0}, "$.spec.output.shards.count: 0 is not valid"),
        ("shards", {"count": "many"}, "$.spec.output.shards.count: 'many' is not valid"),
        ("format", "tfrecrod", "$.spec.output.format: "),
    ],
)
def test_a_fault_is_found_at_its_field(field: str, value: object, said: str) -> None:
    job = a_job()
    job["spec"]["output"][field] = value
    [fault] = faults(job)
    assert fault.startswith(said)


def test_it_has_every_description_and_no_status() -> None:
    assert SCHEMA["$defs"]["CsvSource"]["properties"]["delimiter"]["description"].startswith("Cell separator.")
    assert not [name for name in SCHEMA["$defs"] if "Status" in name]
    assert "status" not in SCHEMA["$defs"][KIND]["properties"]
