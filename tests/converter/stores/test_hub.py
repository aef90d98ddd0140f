"""`hf://` with a fake of the Hub's API, through the library's own file system: commits, pins, tokens, and the errors if any is missing."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.builders.specs import parse_job
from tests.converter.stores.hub_fake import FakeHub, fake_hub

from dataprep_api.dataset.plan import shards
from dataprep_api.resources.job import DataPrepJob
from dataprep_converter.cli.display import Display
from dataprep_converter.core.errors import BadCredentials, BadSpec, InputChanged, NotFound, NotPermitted
from dataprep_converter.dataset.output_folder import OutputFolder
from dataprep_converter.dataset.stored_plan import load_plan
from dataprep_converter.inputs.access import Access
from dataprep_converter.inputs.pinned import open_pinned
from dataprep_converter.inputs.store_settings import settings_for
from dataprep_converter.steps.conversion import convert_commit, convert_work
from dataprep_converter.steps.plan_step import run_plan_step
from dataprep_converter.steps.run import run
from dataprep_converter.stores import StoreSettings
from dataprep_converter.tools.repair import repair

ROOT = "hf://datasets/org/set"


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeHub]:
    monkeypatch.delenv("HF_TOKEN", raising=False)
    with fake_hub() as running:
        yield running


def access_to(hub: FakeHub, **credentials: str) -> Access:
    return Access([StoreSettings(uri_prefix="hf://", endpoint=hub.endpoint, credentials=credentials)])


FILES = {"a/b.txt": b"one\ntwo\n", "a-1.txt": b"x", "a.txt": b"y", "README.md": b"# set"}


def test_files_are_listed_in_the_order_of_whole_paths_and_read_in_ranges(hub: FakeHub) -> None:
    hub.commit(FILES)
    store = access_to(hub).store(ROOT)
    assert [entry.uri.removeprefix(f"{ROOT}/") for entry in store.list(ROOT)] == ["README.md", "a-1.txt", "a.txt", "a/b.txt"]
    with store.open(f"{ROOT}/a/b.txt") as opened:
        assert (opened.size, opened.read_at(4, 3), b"".join(opened.stream())) == (8, b"two", b"one\ntwo\n")
    assert store.get(f"{ROOT}@main/a.txt") == b"y"
    assert store.stat(f"{ROOT}/absent.txt") is None
    assert store.stat(f"{ROOT}/a") is None
    with pytest.raises(NotFound, match=f"{ROOT}/absent.txt does not exist"):
        store.open(f"{ROOT}/absent.txt")


def test_a_process_reads_one_commit_and_another_process_sees_the_files_that_changed(hub: FakeHub) -> None:
    first = hub.commit(FILES)
    store = access_to(hub).store(ROOT)
    pins = {entry.uri: entry.pin for entry in store.list(ROOT)}
    hub.commit(FILES | {"a.txt": b"z"})
    assert store.get(f"{ROOT}/a.txt") == b"y"
    later = access_to(hub).store(ROOT)
    assert later.get(f"{ROOT}/a.txt") == b"z"
    with open_pinned(later, f"{ROOT}/a-1.txt", pins[f"{ROOT}/a-1.txt"]) as same:
        assert same.read_at(0, 1) == b"x"
    with pytest.raises(InputChanged, match=r"a\.txt has changed since it was planned"):
        open_pinned(later, f"{ROOT}/a.txt", pins[f"{ROOT}/a.txt"])
    named = access_to(hub).store(ROOT)
    assert named.get(f"{ROOT}@{first}/a.txt") == b"y"


def test_a_job_reads_a_data_set_of_the_hub(hub: FakeHub, tmp_path: Path) -> None:
    hub.commit({"data/train.csv": b"x,label\n1,0\n2,1\n3,0\n"})
    source: dict[str, Any] = {"csv": {"uris": [f"{ROOT}/data"], "header": True}}
    job = parse_job({"source": source, "output": {"uri": str(tmp_path / "out"), "format": "jsonl"}}, name="hub")
    assert run(job, access=access_to(hub), workers=1, display=Display(quiet=True))[1].records.out == 3


def a_job(hub: FakeHub, tmp_path: Path, **output: Any) -> DataPrepJob:
    """Reads the lines of a folder on the branch `main`. Every process finds the Hub's address in the job itself."""
    return parse_job(
        {
            "source": {"text": {"uris": [f"{ROOT}/days"]}},
            "output": {"uri": str(tmp_path / "out"), "format": "jsonl", "shards": {"count": 2}} | output,
            "stores": [{"uriPrefix": "hf://", "endpoint": hub.endpoint}],
        },
        name="hub",
    )


def access_of(job: DataPrepJob) -> Access:
    return Access(settings_for(job.spec.stores, None))


def lines_of(job: DataPrepJob) -> list[str]:
    return [
        json.loads(line)["text"] for file in sorted(Path(job.spec.output.uri).glob("*.jsonl")) for line in file.read_text().splitlines()
    ]


def test_a_push_in_the_middle_of_a_job_changes_nothing(hub: FakeHub, tmp_path: Path) -> None:
    first = hub.commit({"days/1.txt": b"one\ntwo\n", "days/2.txt": b"three\n"})
    job = a_job(hub, tmp_path)
    plan = run_plan_step(job, access_of(job)).plan
    assert plan.head.commits == {f"{ROOT}@main": first}

    hub.commit({"days/1.txt": b"changed\n", "days/3.txt": b"new\n"})
    hub.requests.clear()
    folder = OutputFolder(job.spec.output.uri, access_of(job)).of_run(plan.head.run_id)
    stored = load_plan(folder, plan.sha256)
    for shard in shards(stored.head):
        convert_work.work(job.spec, plan=stored, shards=[shard], access=access_of(job), attempt="1", watch=lambda _: None)
    assert convert_commit.commit(job.spec, plan=stored, access=access_of(job)).records.out == 3
    assert lines_of(job) == ["one", "two", "three"]
    assert not [request for request in hub.requests if "main" in request]


def test_a_job_ends_although_its_branch_was_deleted(hub: FakeHub, tmp_path: Path) -> None:
    hub.commit({"days/1.txt": b"one\n"}, branch="week")
    job = parse_job(
        {
            "source": {"text": {"uris": [f"{ROOT}@week/days"]}},
            "output": {"uri": str(tmp_path / "out"), "format": "jsonl"},
            "stores": [{"uriPrefix": "hf://", "endpoint": hub.endpoint}],
        },
        name="hub",
    )
    plan = run_plan_step(job, access_of(job)).plan
    del hub.branches["week"]
    work = convert_work.work(job.spec, plan=plan, shards=list(shards(plan.head)), access=access_of(job), attempt="1", watch=lambda _: None)
    assert work.records_out == 1


def test_a_run_goes_on_with_the_commit_of_its_plan(hub: FakeHub, tmp_path: Path) -> None:
    days = {"days/1.txt": b"one\ntwo\n"}
    first = hub.commit(days)
    job = a_job(hub, tmp_path)
    begun = run_plan_step(job, access_of(job)).plan
    second = hub.commit(days | {"README.md": b"# set"})
    access = access_of(job)
    assert run(job, access=access, workers=1, display=Display(quiet=True))[0].plan_sha256 == begun.sha256
    assert access.commits == {f"{ROOT}@main": first}
    assert [request for request in hub.requests if f"/resolve/{first}/" in request]
    assert second != first


def test_a_repair_reads_the_commit_of_the_plan(hub: FakeHub, tmp_path: Path) -> None:
    hub.commit({"days/1.txt": b"one\ntwo\n"})
    job = a_job(hub, tmp_path)
    run(job, access=access_of(job), workers=1, display=Display(quiet=True))
    hub.commit({"days/1.txt": b"changed\n"})
    lost = next(Path(job.spec.output.uri).glob("*.jsonl"))
    content = lost.read_bytes()
    lost.unlink()
    assert repair(job.spec.output.uri, access_of(job)).shards == [lost.name]
    assert lost.read_bytes() == content


def test_an_extension_reads_the_branch_again(hub: FakeHub, tmp_path: Path) -> None:
    hub.commit({"days/1.txt": b"one\ntwo\n"})
    job = a_job(hub, tmp_path, overwrite="Extend")
    run(job, access=access_of(job), workers=1, display=Display(quiet=True))
    second = hub.commit({"days/1.txt": b"one\ntwo\n", "days/2.txt": b"three\n"})
    access = access_of(job)
    result = run(job, access=access, workers=1, display=Display(quiet=True))[0]
    stored = OutputFolder(job.spec.output.uri, access).of_run(result.run_id).plan()
    assert stored is not None
    assert stored.head.commits == {f"{ROOT}@main": second}
    assert lines_of(job) == ["one", "two", "three"]


def test_a_commit_that_the_job_names_is_not_in_the_plan_again(hub: FakeHub, tmp_path: Path) -> None:
    named = hub.commit(FILES)
    hub.commit(FILES | {"a/b.txt": b"changed\n"})
    spec = {"source": {"text": {"uris": [f"{ROOT}@{named}/a"]}}, "output": {"uri": str(tmp_path / "out"), "format": "jsonl"}}
    plan = run_plan_step(parse_job(spec, name="hub"), access_to(hub)).plan
    assert (plan.head.commits, plan.head.document()["version"], plan.head.samples) == ({}, 1, 2)


def test_a_private_repository_needs_the_token_of_a_secret(hub: FakeHub, tmp_path: Path) -> None:
    hub.commit(FILES)
    hub.token = "hf_marked"
    (tmp_path / "secrets/0").mkdir(parents=True)
    (tmp_path / "secrets/0/token").write_text("hf_marked\n")
    job = parse_job(
        {
            "source": {"text": {"uris": [f"{ROOT}/a"]}},
            "output": {"uri": str(tmp_path / "out")},
            "stores": [{"uriPrefix": "hf://", "endpoint": hub.endpoint, "secretRef": {"name": "hub"}}],
        },
        name="hub",
    )
    assert Access(settings_for(job.spec.stores, str(tmp_path))).store(ROOT).get(f"{ROOT}/a/b.txt") == b"one\ntwo\n"
    with pytest.raises(NotPermitted) as nobody:
        access_to(hub).store(ROOT).stat(f"{ROOT}/a.txt")
    assert f"{ROOT}/a.txt: the Hub doesn't show this repository without a token, or it doesn't exist: " in str(nobody.value)
    with pytest.raises(BadCredentials) as wrong:
        access_to(hub, token="hf_wrong").store(ROOT).stat(f"{ROOT}/a.txt")
    assert f"{ROOT}/a.txt: the Hub refuses the token: " in str(wrong.value)
    assert "hf_wrong" not in str(wrong.value)


def test_a_token_of_the_environment_that_the_hub_refuses_is_not_asked_for_again(hub: FakeHub, monkeypatch: pytest.MonkeyPatch) -> None:
    hub.commit(FILES)
    hub.token = "hf_right"
    monkeypatch.setenv("HF_TOKEN", "hf_wrong")
    with pytest.raises(BadCredentials, match=f"^{ROOT}/a.txt: the Hub refuses the token: "):
        access_to(hub).store(ROOT).stat(f"{ROOT}/a.txt")


def test_an_anonymous_entry_sends_no_token_of_the_environment(hub: FakeHub, monkeypatch: pytest.MonkeyPatch) -> None:
    hub.commit(FILES)
    hub.token = "hf_right"
    monkeypatch.setenv("HF_TOKEN", "hf_right")
    store = Access([StoreSettings(uri_prefix="hf://", endpoint=hub.endpoint, anonymous=True)]).store(ROOT)
    with pytest.raises(NotPermitted, match="the Hub doesn't show this repository without a token"):
        store.stat(f"{ROOT}/a.txt")


@pytest.mark.parametrize("token", ["hf_marked\nhf_marked", "hf_marked é"])
def test_a_token_that_is_not_one_word_is_not_shown(hub: FakeHub, token: str) -> None:
    hub.commit(FILES)
    with pytest.raises(BadCredentials) as error:
        access_to(hub, token=token).store(ROOT).stat(f"{ROOT}/a.txt")
    assert str(error.value) == f"{ROOT}/a.txt: the token for the Hub is not one word of ASCII characters."


def test_a_bucket_is_refused_by_name() -> None:
    with pytest.raises(BadSpec, match="^hf://buckets/org/b/a.txt: the Hub's buckets have no commits"):
        Access().store("hf://buckets/org/b").stat("hf://buckets/org/b/a.txt")


def test_a_missing_client_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(BadSpec, match=r"^hf:// needs the client huggingface_hub: pip install 'dataprep-operator\[hf\]'\.$"):
        Access().store(ROOT).stat(f"{ROOT}/a.txt")
