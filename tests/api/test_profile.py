"""DataPrepProfile: the model, its small schema, and which value applies if a job and its profile set the same field."""

import json
from typing import Any

import pytest

from dataprep_api.errors import SpecError
from dataprep_api.generate import crd
from dataprep_api.resources.profile import DataPrepProfile, with_defaults
from dataprep_api.spec import Workers


def a_profile(**spec: Any) -> dict[str, Any]:  # Any: YAML
    return {"apiVersion": "dataprep.io/v1alpha1", "kind": "DataPrepProfile", "metadata": {"name": "team"}, "spec": spec}


S3 = {"uriPrefix": "s3://", "secretRef": {"name": "keys"}}


def test_what_the_job_leaves_out_comes_from_the_profile() -> None:
    job = {"output": {"uri": "s3://out/a"}, "workers": {"parallelism": 4}}
    profile = {"stores": [S3], "workers": {"image": "team:1", "resources": {"limits": {"memory": "8Gi"}}}}

    assert with_defaults(job, profile, name="team") == {
        "output": {"uri": "s3://out/a"},
        "profile": "team",
        "stores": [S3],
        "workers": {"parallelism": 4, "image": "team:1", "resources": {"limits": {"memory": "8Gi"}}},
    }
    assert job == {"output": {"uri": "s3://out/a"}, "workers": {"parallelism": 4}}


def test_what_stands_in_the_job_wins_whole() -> None:
    own = {"uriPrefix": "s3://", "region": "eu-1"}
    job = {"stores": [own], "workers": {"tolerations": [], "resources": {"requests": {"cpu": 1}}, "image": None}}
    profile = {
        "stores": [S3, {"uriPrefix": "oss://"}],
        "workers": {"tolerations": [{"operator": "Exists"}], "resources": {"limits": {"memory": "8Gi"}}, "image": "team:1"},
    }

    found = with_defaults(job, profile, name="team")

    assert found["stores"] == [own, {"uriPrefix": "oss://"}]
    assert found["workers"] == {"tolerations": [], "resources": {"requests": {"cpu": 1}}, "image": "team:1"}


def test_an_empty_profile_adds_its_name_only() -> None:
    assert with_defaults({"output": {"uri": "/o"}}, {}, name="default") == {"output": {"uri": "/o"}, "profile": "default"}


def test_a_fault_names_its_field() -> None:
    with pytest.raises(SpecError, match=r"spec\.workers\.imag: unknown field; did you mean image\?"):
        DataPrepProfile.parse(a_profile(workers={"imag": "x"}))
    with pytest.raises(SpecError, match="expected a mapping"):
        DataPrepProfile.parse([])


def test_its_fields_are_those_of_workers() -> None:
    fields = crd.profile_crd()["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]
    assert set(fields) == {"stores", "workers"}
    theirs = Workers.model_json_schema()["properties"]
    assert set(fields["workers"]["properties"]) < set(theirs)
    # Profiles have no `parallelism`, because this field can be changed while a job runs.
    assert "parallelism" not in fields["workers"]["properties"]


def test_the_schema_is_small_and_closed() -> None:
    text = json.dumps(crd.profile_crd())
    assert len(text) < 10_000
    assert "preserve-unknown-fields" not in text
