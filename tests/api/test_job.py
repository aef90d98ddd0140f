"""Parsing a job: params, faults with their paths, and suggestions for misspelt names."""

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from dataprep_api.errors import SpecError
from dataprep_api.resources.job import DataPrepJob
from dataprep_api.resources.params import fill
from dataprep_api.spec import Source

SOURCES = ", ".join(Source.members())

Builder = Callable[[Mapping[str, object]], dict[str, Any]]


def faults_of(document: object) -> list[str]:
    with pytest.raises(SpecError) as refused:
        DataPrepJob.parse(document)
    return [str(fault) for fault in refused.value.faults]


# --- params ---------------------------------------------------------------------------------------------------------------


def test_params_are_filled_in_strings_however_deep(a_job: Builder) -> None:
    job = a_job({"params": {"in": "/data", "out": "/sets"}, "source.idx.subsets.0.images": "${in}/train.gz", "output.uri": "${out}/${in}"})

    spec = DataPrepJob.parse(job).spec

    assert spec.data.idx is not None
    assert spec.data.idx.subsets[0].images == "/data/train.gz"
    assert spec.output.uri == "/sets//data"


def test_a_doubled_dollar_stands_for_one() -> None:
    assert fill("$${a} $$$$ $ ${a}", {"a": "b"}, path="") == "${a} $$ $ b"


def test_a_filled_value_is_not_filled_again() -> None:
    assert fill("${a}", {"a": "${b}", "b": "c"}, path="") == "${b}"


def test_what_is_not_a_string_stays_as_it_is() -> None:
    assert fill([1, None, {"a": True}], {}, path="") == [1, None, {"a": True}]


def test_every_reference_without_a_param_is_named_with_its_field(a_job: Builder) -> None:
    job = a_job({"params": {"input": "/a"}, "source.idx.subsets.1.images": "${inptu}/x", "output.uri": "${out}"})

    with pytest.raises(SpecError) as refused:
        DataPrepJob.parse(job)

    assert refused.value.faults[0].path == "spec.source.idx.subsets[1].images"
    assert "${inptu} is not in spec.params (known: input); set it with --set params.inptu=VALUE" in refused.value.faults[0].message


@pytest.mark.parametrize("where", ["env", "volumes", "image"])
def test_params_don_t_reach_the_pods(a_job: Builder, where: str) -> None:
    values: dict[str, object] = {
        "env": [{"name": "A", "value": "${PATH}"}],
        "volumes": [{"name": "a", "hostPath": {"path": "${PATH}"}}],
        "image": "a:${PATH}",
    }

    workers = DataPrepJob.parse(a_job({f"workers.{where}": values[where]})).spec.workers

    assert "${PATH}" in str(workers.model_dump(by_alias=True)[where])


# --- faults ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        pytest.param({"outptu": {}}, "spec.outptu: unknown field; did you mean output? (known: ", id="top"),
        pytest.param({"output.overwrit": "Never"}, "spec.output.overwrit: unknown field; did you mean overwrite?", id="nested"),
        pytest.param({"output.file_name": "a"}, "spec.output.file_name: unknown field; did you mean fileName?", id="snake case"),
        pytest.param(
            {"source.idx.subsets.0.image": "a"}, "spec.source.idx.subsets[0].image: unknown field; did you mean images?", id="in a list"
        ),
        pytest.param({"workers.zzz": 1}, "spec.workers.zzz: unknown field (known: accelerator, ", id="nothing like it"),
        pytest.param({"output.uri": None}, "spec.output.uri: is required", id="missing"),
        pytest.param({"workers.parallelism": 0}, "spec.workers.parallelism: must be at least 1, got 0", id="range"),
        pytest.param({"source.idx": None}, f"spec.source: exactly one source must be set ({SOURCES}), got none", id="no source"),
        pytest.param({"source.csv": {"uris": ["a"]}}, f"spec.source: exactly one source must be set ({SOURCES}), got idx, csv", id="two"),
        pytest.param(
            {"splits.into": [{"name": "a", "fraction": 0.8}, {"name": "b", "fraction": 0.3}]},
            "spec.splits: the fractions must sum to 1, got 1.1",
            id="fractions",
        ),
        pytest.param({"splits.into": [{"name": "a"}, {"name": "a"}]}, "spec.splits: the split 'a' is listed twice", id="splits"),
        pytest.param(
            {"output.shards.targetSize": "1Ki"}, "spec.output.shards: targetSize must be at least 64Ki, got 1Ki", id="tiny shards"
        ),
        pytest.param({"output.overwrite": "Extend", "limit": 5}, "spec: overwrite: Extend: limit chooses from all records", id="Extend"),
        pytest.param(
            {"features": [{"name": "a"}], "labels": [{"name": "a"}]},
            "spec: the feature 'a' is listed twice in features and labels",
            id="features",
        ),
        pytest.param(
            {"workers.resources.limits": {"memory": "2 GB"}},
            "spec.workers.resources.limits.memory: expected a Kubernetes quantity such as 500m, 2 or 4Gi, got '2 GB'",
            id="resources",
        ),
    ],
)
def test_a_fault_names_the_field_and_what_was_expected(a_job: Builder, changes: dict[str, object], fault: str) -> None:
    assert [said for said in faults_of(a_job(changes)) if said.startswith(fault)], faults_of(a_job(changes))


DUPLICATES: dict[str, tuple[dict[str, object], str]] = {
    "stores": (
        {"stores": [{"uriPrefix": "s3://a/"}, {"uriPrefix": "s3://b/"}, {"uriPrefix": "s3://a/", "region": "eu"}]},
        "spec.stores: the items 0 and 2 have the same uriPrefix",
    ),
    "spread constraints": (
        {"workers.podTemplate.topologySpreadConstraints": [{"topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}] * 2},
        "spec.workers.podTemplate.topologySpreadConstraints: the items 0 and 1 have the same topologyKey and whenUnsatisfiable",
    ),
    "runAfter": ({"runAfter": ["one", "one"]}, "spec.runAfter: the items 0 and 1 have the same value"),
}


@pytest.mark.parametrize(("changes", "fault"), DUPLICATES.values(), ids=DUPLICATES.keys())
def test_duplicates_are_faults_of_a_new_job_but_not_of_a_stored_one(a_job: Builder, changes: dict[str, object], fault: str) -> None:
    with pytest.raises(SpecError) as refused:
        DataPrepJob.parse(a_job(changes), new=True)

    assert [str(each) for each in refused.value.faults] == [fault]
    assert DataPrepJob.parse(a_job(changes)).metadata.name == "mnist"


def test_all_faults_are_told_at_once(a_job: Builder) -> None:
    job = a_job({"workers.parallelism": 0, "output.uir": "a", "backoffLimit": -1})

    assert {said.split(":")[0] for said in faults_of(job)} == {"spec.workers.parallelism", "spec.output.uir", "spec.backoffLimit"}


@pytest.mark.parametrize("document", [None, [], "a", 3], ids=str)
def test_what_is_not_a_mapping_is_refused(document: object) -> None:
    assert "expected a mapping with apiVersion, kind, metadata and spec" in faults_of(document)[0]


def test_another_kind_is_refused(a_job: Builder) -> None:
    assert faults_of(a_job({}) | {"kind": "Job"})[0].startswith("kind: expected 'DataPrepJob'")


def test_metadata_may_hold_what_kubernetes_puts_there(a_job: Builder) -> None:
    job = a_job({})
    job["metadata"] |= {"uid": "a", "managedFields": [{"a": 1}], "labels": {"a": "b"}}

    assert DataPrepJob.parse(job).metadata.name == "mnist"


def test_a_job_read_back_is_equal(a_job: Builder) -> None:
    job = DataPrepJob.parse(a_job({"splits.into": [{"name": "train", "fraction": 1}]}))

    assert DataPrepJob.parse(job.model_dump(by_alias=True, exclude_none=True)) == job
