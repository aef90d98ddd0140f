"""Outputs on the Hub that are refused: tokens without rights, places that can't be written, and inputs that would be overwritten."""

from pathlib import Path

import pytest
from tests.builders.specs import parse_job
from tests.converter.stores.hub_fake import FakeHub
from tests.converter.stores.hub_jobs import OUTPUT, a_job, access_of, make, published

from dataprep_api.resources.job import DataPrepJob
from dataprep_converter.cli.display import Display
from dataprep_converter.core.errors import (
    BadCredentials,
    BadSpec,
    ConvertError,
    NotFound,
    NotPermitted,
)
from dataprep_converter.inputs.access import Access
from dataprep_converter.inputs.store_settings import settings_for
from dataprep_converter.steps.plan_step import dry_run, run_plan_step
from dataprep_converter.steps.run import run

# The library sends large files with an argument that its own HTTP client warns about.
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore:Use 'content=:DeprecationWarning")]


def with_secret(job: DataPrepJob, folder: Path, token: str | None) -> Access:
    """An Access with the Secret of the job's `stores` entry, mounted as in pods."""
    document = job.model_dump(mode="json", by_alias=True, exclude_unset=True)
    if token is not None:
        (folder / "secrets/0").mkdir(parents=True, exist_ok=True)
        (folder / "secrets/0/token").write_text(f"{token}\n")
        document["spec"]["stores"][0]["secretRef"] = {"name": "hub"}
    return Access(settings_for(DataPrepJob.parse(document).spec.stores, str(folder) if token is not None else None))


def test_the_token_of_a_secret_writes(hub: FakeHub, tmp_path: Path) -> None:
    hub.token = "hf_right"
    job = a_job(hub, tmp_path)
    access = with_secret(job, tmp_path, "hf_right")
    run(job, access=access, workers=1, display=Display(quiet=True))
    assert "_SUCCESS" in published(hub)


@pytest.mark.parametrize(
    ("token", "error", "message"),
    [
        (None, NotPermitted, "the Hub needs a token to accept a data set, or datasets/org/set doesn't exist: "),
        ("hf_wrong", BadCredentials, "the Hub refuses the token: "),
        ("hf_reader", NotPermitted, "the token isn't allowed to write to datasets/org/set: "),
    ],
    ids=["none", "wrong", "read-only"],
)
def test_a_token_that_may_not_write_is_named_before_anything_is_planned(
    hub: FakeHub, tmp_path: Path, token: str | None, error: type[ConvertError], message: str
) -> None:
    hub.token, hub.read_only = "hf_right", {"hf_reader"}
    job = a_job(hub, tmp_path)
    with pytest.raises(error) as refused:
        run_plan_step(job, with_secret(job, tmp_path, token))
    assert str(refused.value).startswith(f"{OUTPUT}: {message}")
    if error is NotPermitted:
        assert str(refused.value).endswith(
            "Put a token with write access to datasets/org/set into the key token of a Secret (an entry of stores), or into HF_TOKEN."
        )
    assert token is None or token not in str(refused.value)
    assert hub.log == []


@pytest.mark.parametrize(
    ("where", "message"),
    [("batch", "no permission for large files"), ("object", "no permission for this file"), ("storage", "Request has expired")],
)
def test_the_refused_content_of_a_large_file_has_an_error_of_its_own(hub: FakeHub, tmp_path: Path, where: str, message: str) -> None:
    hub.refuses_content_at = where
    job = a_job(hub, tmp_path, format="parquet")
    with pytest.raises(NotPermitted) as refused:
        make(job)
    text = str(refused.value)
    assert text.startswith("hf://datasets/org/set/data")
    assert ": the Hub refuses the content of this large file: " in text
    assert message in text
    assert text.endswith(
        "The token may lack the permission to write to datasets/org/set, or a proxy may refuse uploads. Put a token with write access to "
        "datasets/org/set into the key token of a Secret (an entry of stores), or into HF_TOKEN."
    )
    assert published(hub) == {}


def test_a_repository_or_branch_that_does_not_exist_is_named(hub: FakeHub, tmp_path: Path) -> None:
    hub.token = "hf_right"
    for uri, message in (
        ("hf://datasets/org/none", "there is no repository datasets/org/none, or the token has no access to it"),
        ("hf://datasets/org/set@v3", "datasets/org/set has no branch v3, and an output must be on a branch"),
    ):
        job = a_job(hub, tmp_path, uri=uri)
        with pytest.raises(NotFound) as refused:
            run_plan_step(job, with_secret(job, tmp_path, "hf_right"))
        assert str(refused.value).startswith(f"{uri}: {message}")


@pytest.mark.parametrize("revision", ["0" * 40, "refs/pr/1"])
def test_an_output_must_be_on_a_branch(hub: FakeHub, tmp_path: Path, revision: str) -> None:
    uri = f"hf://datasets/org/set@{revision}/data"
    job = a_job(hub, tmp_path, uri=uri)
    with pytest.raises(BadSpec, match=f"^{uri}: an output must be on a branch, but {revision} isn't a branch"):
        dry_run(job, access_of(job))


def test_single_files_are_not_written(hub: FakeHub) -> None:
    with pytest.raises(BadSpec, match=f"^{OUTPUT}/x: dataprep writes only data sets to hf://, not single files"):
        Access().store(OUTPUT).put(f"{OUTPUT}/x", b"x")
    assert hub.requests == []


def test_a_script_does_not_write_to_the_hub(hub: FakeHub) -> None:
    spec = {"script": {"command": ["true"], "outputs": ["*.txt"]}, "output": {"uri": OUTPUT}}
    with pytest.raises(BadSpec, match=f"^{OUTPUT}: a script can't write to the Hub"):
        run_plan_step(parse_job(spec, name="script"), Access())
    assert hub.requests == []


def test_an_output_in_the_source_is_refused_with_and_without_a_branch(hub: FakeHub) -> None:
    spec = {"source": {"text": {"uris": ["hf://datasets/org/set"]}}, "output": {"uri": "hf://datasets/org/set@main/data"}}
    with pytest.raises(BadSpec, match="lies in the input hf://datasets/org/set"):
        run_plan_step(parse_job(spec, name="hub"), Access())
    assert hub.requests == []
