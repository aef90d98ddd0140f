"""Custom resources stored by an earlier release are valid according to this release's models and CRDs.

The CEL rules are covered by tests/api/test_admission.py.
"""

import functools
import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from tests.compat.stored_objects import DEFINITIONS, RESOURCES

from dataprep_api.resources.cron import DataPrepCronJob, DataPrepCronJobStatus
from dataprep_api.resources.job import DataPrepJob
from dataprep_api.resources.profile import DataPrepProfile
from dataprep_api.resources.status import DataPrepJobStatus

Value = Any  # JSON
Schema = Mapping[str, Any]  # JSON

INVALID = "invalid mnist"
"""Specs that every schema accepts but the operator rejects."""
PHASES = {"Pending", "Planning", "Queued", "Running", "Suspended", "Committing", "Succeeded", "Failed"}
TYPES: dict[str, Any] = {"object": dict, "array": list, "string": str, "boolean": bool, "integer": int, "number": (int, float)}


def faults(value: Value, schema: Schema, path: str = "") -> Iterator[str]:
    """Return a message for each violation of a structural schema.

    CEL rules aren't checked. Unknown fields count as violations, because the API server would prune them.
    """
    if schema.get("x-kubernetes-int-or-string"):
        if not isinstance(value, int | str):
            yield f"{path} is neither a number nor a text"
        return
    kind = schema.get("type", "object")
    if not isinstance(value, TYPES[kind]) or (isinstance(value, bool) and kind != "boolean"):
        yield f"{path} is no {kind}"
        return
    if "enum" in schema and value not in schema["enum"]:
        yield f"{path} is none of {schema['enum']}"
    if "pattern" in schema and not re.search(schema["pattern"], value):
        yield f"{path} does not match {schema['pattern']}"
    size = value if isinstance(value, int | float) else len(value)
    for least, most in (("minimum", "maximum"), ("minLength", "maxLength"), ("minItems", "maxItems"), ("minProperties", "maxProperties")):
        if not schema.get(least, size) <= size <= schema.get(most, size):
            yield f"{path} is too small or too large"
    yield from _faults_within(value, schema, path)


def _faults_within(value: Value, schema: Schema, path: str) -> Iterator[str]:
    if isinstance(value, list):
        for number, each in enumerate(value):
            yield from faults(each, schema["items"], f"{path}[{number}]")
    elif isinstance(value, dict):
        yield from (f"{path}.{name} is missing" for name in schema.get("required", []) if name not in value)
        known = schema.get("properties", {})
        for name, each in value.items():
            inner = known.get(name, schema.get("additionalProperties"))
            if inner is not None and inner is not True:
                yield from faults(each, inner, f"{path}.{name}")
            elif not schema.get("x-kubernetes-preserve-unknown-fields"):
                yield f"{path}.{name} is not known"


@functools.cache
def schema_of(plural: str) -> Schema:
    (version,) = DEFINITIONS[plural]()["spec"]["versions"]
    schema: Schema = version["schema"]["openAPIV3Schema"]
    return schema


def test_every_phase_and_kind_is_covered() -> None:
    assert {body["status"]["phase"] for plural, body in RESOURCES.values() if plural == "dataprepjobs"} == PHASES
    assert {plural for plural, _ in RESOURCES.values()} == {*DEFINITIONS}


@pytest.mark.parametrize("name", RESOURCES)
def test_the_current_crd_accepts_it_unchanged(name: str) -> None:
    plural, body = RESOURCES[name]
    schema = dict(schema_of(plural))
    for part in ("spec", "status"):
        if part in body:
            assert [*faults(body[part], schema["properties"][part], part)] == []


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        ({"spec": {"sources": {}}}, "spec.sources is not known"),
        ({"spec": {"backoffLimit": -1}}, "spec.backoffLimit is too small or too large"),
        ({"spec": {"suspend": "yes"}}, "spec.suspend is no boolean"),
        ({"spec": {"output": {}}}, "spec.output.uri is missing"),
        ({"status": {"phase": "Asleep"}}, "status.phase is none of "),
    ],
)
def test_the_check_finds_what_does_not_fit(change: dict[str, Any], fault: str) -> None:
    _, body = RESOURCES["converting mnist"]
    ((part, more),) = change.items()
    found = [*faults(body[part] | more, schema_of("dataprepjobs")["properties"][part], part)]
    assert len(found) == 1
    assert found[0].startswith(fault)


@pytest.mark.parametrize("name", [name for name in RESOURCES if name != INVALID])
def test_the_current_models_accept_it(name: str) -> None:
    plural, body = RESOURCES[name]
    document = {key: value for key, value in body.items() if key != "status"}
    if plural == "dataprepjobs":
        DataPrepJob.parse(document)
        status = DataPrepJobStatus.model_validate(body["status"])
        said = status.model_dump(mode="json", by_alias=True, exclude_unset=True)
        assert json.loads(json.dumps(said)) == body["status"]
    elif plural == "dataprepcronjobs":
        DataPrepCronJob.parse(document)
        DataPrepCronJobStatus.model_validate(body["status"])
    else:
        DataPrepProfile.parse(document)
