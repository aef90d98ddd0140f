"""`hf://` as the output of jobs.

The library itself sends the requests for the working branch, and for the commit that publishes it, to a fake of the Hub.
"""

from contextlib import suppress
from io import StringIO
from pathlib import Path
from threading import Barrier, BrokenBarrierError, Thread

import pytest
from tests.builders.specs import parse_job
from tests.converter.stores.crashing import Killed
from tests.converter.stores.hub_fake import FakeHub
from tests.converter.stores.hub_jobs import (
    CARD,
    OUTPUT,
    a_job,
    access_of,
    access_of_a_pod,
    check_same_data,
    commit,
    killed_at,
    make,
    on_disk,
    published,
    titles,
    work,
)

from dataprep_converter.cli.display import Display
from dataprep_converter.core.errors import (
    BadSpec,
    NotWhole,
    OutputExists,
    Unreachable,
)
from dataprep_converter.runtime import scans
from dataprep_converter.steps import one_pod
from dataprep_converter.steps.conversion import scan_step
from dataprep_converter.steps.plan_step import run_plan_step
from dataprep_converter.steps.remove import remove
from dataprep_converter.steps.run import run
from dataprep_converter.stores.hub_repository import pause_for
from dataprep_converter.tools.inspect.inspection import show
from dataprep_converter.tools.repair import repair
from dataprep_converter.tools.verification import verify

# The library sends large files with an argument that its own HTTP client warns about.
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore:Use 'content=:DeprecationWarning")]


@pytest.mark.parametrize("format_", ["jsonl", "parquet", "tfrecord"])
def test_a_job_makes_the_same_files_as_in_a_folder(hub: FakeHub, tmp_path: Path, format_: str) -> None:
    make(a_job(hub, tmp_path, format=format_))
    make(a_job(hub, tmp_path, format=format_, uri=str(tmp_path / "out")))
    check_same_data(hub, tmp_path / "out")
    assert published(hub, "") == CARD | {f"data/{path}": content for path, content in published(hub).items()}
    assert hub.branches.keys() == {"main"}


def test_readers_see_nothing_before_the_one_commit_and_everything_after_it(hub: FakeHub, tmp_path: Path) -> None:
    seen: list[tuple[str, dict[str, bytes]]] = []
    hub.before_commit = lambda branch: seen.append((branch, published(hub)))
    job = a_job(hub, tmp_path)
    planned = run_plan_step(job, access_of(job))
    work(job, planned)
    assert titles(hub) == []
    commit(job, planned)
    assert titles(hub) == ["Publish data with dataprep"]
    assert all(files == {} for _, files in seen)
    assert [branch for branch, _ in seen].index("main") == len(seen) - 1
    assert "_SUCCESS" in published(hub)
    assert verify(OUTPUT, access_of(job)).records_out == 6


def test_pods_that_commit_at_the_same_time_lose_nothing(hub: FakeHub, tmp_path: Path) -> None:
    job = a_job(hub, tmp_path, rows=16, shards={"count": 4})
    planned = run_plan_step(job, access_of(job))
    barrier = Barrier(2)
    moved: list[str] = []

    def wait(_: str) -> None:
        if len(moved) < 6:
            moved.append("")
            with suppress(BrokenBarrierError):
                barrier.wait(1)

    hub.before_commit = wait
    pods = [Thread(target=work, args=(job, planned), daemon=True) for _ in range(2)]
    for pod in pods:
        pod.start()
    for pod in pods:
        pod.join()
    commit(job, planned)
    make(a_job(hub, tmp_path, rows=16, shards={"count": 4}, uri=str(tmp_path / "out")))
    assert hub.refused > 0
    check_same_data(hub, tmp_path / "out")


def test_large_files_are_sent_once_and_copied_by_the_hub(hub: FakeHub, tmp_path: Path) -> None:
    make(a_job(hub, tmp_path, format="parquet"))
    sent = [request for request in hub.requests if request.startswith("PUT /lfs/")]
    assert len(sent) == len(set(sent)) == len(hub.large)
    assert sum(path.endswith(".parquet") for path in published(hub)) == len(sent)


def test_a_finished_data_set_is_reused_without_a_commit(hub: FakeHub, tmp_path: Path) -> None:
    job = a_job(hub, tmp_path)
    make(job)
    hub.log.clear()
    assert run(job, access=access_of(job), workers=1, display=Display(quiet=True))[0].reused
    assert (hub.log, list(hub.branches)) == ([], ["main"])


def test_readers_see_the_earlier_data_set_until_the_next_one_is_published(hub: FakeHub, tmp_path: Path) -> None:
    make(a_job(hub, tmp_path, shards={"count": 3}))
    earlier, hub.log = published(hub), []
    changed = a_job(hub, tmp_path, rows=8)
    planned = run_plan_step(changed, access_of(changed))
    work(changed, planned)
    assert published(hub) == earlier
    assert verify(OUTPUT, access_of(changed)).records_out == 6
    commit(changed, planned)
    make(a_job(hub, tmp_path, rows=8, uri=str(tmp_path / "out")))
    assert titles(hub) == ["Publish data with dataprep"]
    assert {path for path in published(hub) if path.endswith(".jsonl")} == {
        path for path in on_disk(tmp_path / "out") if path.endswith(".jsonl")
    }
    assert verify(OUTPUT, access_of(changed)).records_out == 8


def test_never_refuses_a_finished_data_set_and_that_of_another_run(hub: FakeHub, tmp_path: Path) -> None:
    unfinished = a_job(hub, tmp_path)
    run_plan_step(unfinished, access_of(unfinished))
    other = a_job(hub, tmp_path, rows=8, overwrite="Never")
    with pytest.raises(OutputExists, match=f"^{OUTPUT} belongs to the unfinished run [0-9a-f]+; overwrite is Never"):
        run_plan_step(other, access_of(other))
    make(a_job(hub, tmp_path))
    other = a_job(hub, tmp_path, rows=8, overwrite="Never")
    with pytest.raises(OutputExists, match=f"^{OUTPUT} holds the finished data set of run [0-9a-f]+; overwrite is Never"):
        run_plan_step(other, access_of(other))
    assert list(hub.branches) == ["main"]


def test_an_extension_adds_the_new_files_in_one_commit(hub: FakeHub, tmp_path: Path) -> None:
    make(a_job(hub, tmp_path, overwrite="Extend"))
    before, hub.log = published(hub), []
    extended = a_job(hub, tmp_path, days=2, overwrite="Extend")
    make(extended)
    after = published(hub)
    shards_before = {path: content for path, content in before.items() if path.endswith(".jsonl")}
    assert shards_before.items() <= after.items()
    assert titles(hub) == ["Publish data with dataprep"]
    assert verify(OUTPUT, access_of(extended)).records_out == 12


def test_a_foreign_file_is_not_overwritten(hub: FakeHub, tmp_path: Path) -> None:
    hub.commit(CARD | {"data/notes.txt": b"mine"})
    job = a_job(hub, tmp_path)
    with pytest.raises(OutputExists, match=rf"^{OUTPUT} contains notes\.txt, which no dataprep run planned there"):
        make(job)
    assert (hub.log, list(hub.branches)) == ([], ["main"])


def test_a_push_elsewhere_in_the_repository_is_kept(hub: FakeHub, tmp_path: Path) -> None:
    pushed: list[str] = []

    def push(branch: str) -> None:
        if branch == "main" and not pushed:
            pushed.append(hub.commit(hub.at("main")[1] | {"other.txt": b"pushed"}))

    hub.before_commit = push
    make(a_job(hub, tmp_path))
    assert hub.refused == 1
    assert hub.at("main")[1]["other.txt"] == b"pushed"
    assert "_SUCCESS" in published(hub)


def test_a_file_that_others_pushed_into_the_folder_is_neither_removed_nor_joined(hub: FakeHub, tmp_path: Path) -> None:
    job = a_job(hub, tmp_path)
    planned = run_plan_step(job, access_of(job))
    work(job, planned)
    hub.commit(CARD | {"data/late.txt": b"mine"})
    with pytest.raises(OutputExists) as refused:
        commit(job, planned)
    branch = next(name for name in hub.branches if name != "main")
    assert str(refused.value) == (
        f"{OUTPUT}: data/late.txt was changed on main after this job started, so the finished data set isn't published over that change. "
        f"Revert the change, or remove the branch {branch} and run the job again."
    )
    assert published(hub) == {"late.txt": b"mine"}
    hub.commit(CARD)
    make(job)
    assert verify(OUTPUT, access_of(job)).records_out == 6


def test_an_unpublished_data_set_is_published_by_the_next_run(hub: FakeHub, tmp_path: Path) -> None:
    job = a_job(hub, tmp_path)
    with killed_at(1, "before", when=lambda request: request.url.path.endswith("/commit/main")), pytest.raises(Killed):
        make(job)
    assert published(hub) == {}
    made = len(hub.log)
    assert run(job, access=access_of(job), workers=1, display=Display(quiet=True))[0].reused
    assert hub.log[made:] == [("main", "Publish data with dataprep")]
    assert verify(OUTPUT, access_of(job)).records_out == 6


def test_a_commit_is_repeated_after_the_data_set_was_published(hub: FakeHub, tmp_path: Path) -> None:
    job = a_job(hub, tmp_path)
    planned = run_plan_step(job, access_of(job))
    work(job, planned)
    commit(job, planned)
    before = published(hub)
    commit(job, planned)
    assert published(hub) == before
    assert list(hub.branches) == ["main"]


@pytest.mark.parametrize("overwrite", ["Never", "Extend"])
def test_the_other_steps_finish_a_small_job_whose_pod_had_published_it(hub: FakeHub, tmp_path: Path, overwrite: str) -> None:
    job, pods = a_job(hub, tmp_path, overwrite=overwrite), "hub-0123456789-"
    access = access_of(job)
    planned = run_plan_step(job, access, pods=pods)
    result = one_pod.finish(job, planned, access, attempt=f"{pods}plan-1-abcde/1", watch=lambda _: None)
    assert result.commit is not None
    before = published(hub)
    again = run_plan_step(job, access_of(job), pods=pods)
    assert (again.result.reused, again.result.commit) == (False, None)
    work(job, again)
    commit(job, again)
    assert published(hub) == before
    assert list(hub.branches) == ["main"]


def test_a_worker_of_a_published_run_changes_nothing(hub: FakeHub, tmp_path: Path) -> None:
    job = a_job(hub, tmp_path)
    access = access_of(job)
    planned = run_plan_step(job, access)
    upload = access.store(OUTPUT).create(f"{OUTPUT}/train-00000-of-00002.jsonl")
    upload.write(b"late")
    work(job, planned)
    commit(job, planned)
    before = published(hub)
    with pytest.raises(Unreachable, match="the working branch dataprep/main-data-[0-9a-f]{8} is gone"):
        upload.commit(replace=True)
    upload.abort()
    assert (published(hub), list(hub.branches)) == (before, ["main"])


def test_a_file_that_was_removed_after_its_content_was_sent_is_written_again(hub: FakeHub, tmp_path: Path) -> None:
    job = a_job(hub, tmp_path)
    access = access_of(job)
    run_plan_step(job, access)
    uri = f"{OUTPUT}/train-00000-of-00002.parquet"
    access.store(OUTPUT).put(uri, b"same")
    upload = access.store(OUTPUT).create(uri)
    upload.write(b"same")
    upload.stage()  # the library now remembers that the Hub has the file
    access_of_a_pod(job).store(OUTPUT).delete(uri)
    thread = Thread(target=upload.commit, kwargs={"replace": True}, daemon=True)
    thread.start()
    thread.join(60)
    assert not thread.is_alive()
    branch = next(name for name in hub.branches if name != "main")
    assert published(hub, branch=branch)["train-00000-of-00002.parquet"] == b"same"


@pytest.mark.parametrize(("ignored", "commits"), [("OWNER", 2), ("train-00001-of-00002.parquet", None)])
def test_a_file_that_gitignore_excludes_is_named(hub: FakeHub, tmp_path: Path, ignored: str, commits: int | None) -> None:
    hub.ignored = lambda path: path.endswith(ignored)
    with pytest.raises(BadSpec, match=rf"^{OUTPUT}/\S*{ignored}: the repository's \.gitignore excludes this file"):
        make(a_job(hub, tmp_path, format="parquet"))
    assert published(hub) == {}
    assert commits is None or len(hub.log) == commits


def test_the_hub_s_limit_of_commits_is_waited_for(hub: FakeHub, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    hub.busy = ["0", "1"]
    job = a_job(hub, tmp_path)
    make(job)
    assert caplog.text.count("the Hub accepts no more commits for now, trying again in 1 s") == 2
    assert verify(OUTPUT, access_of(job)).records_out == 6


@pytest.mark.parametrize(
    ("header", "seconds"), [("0", 1), ("30", 30), (None, 60), ("soon", 60), ("-1", 60), ("604800", 4000), ("9" * 400, 4000)]
)
def test_the_pause_before_the_next_commit_is_neither_nothing_nor_days(header: str | None, seconds: float) -> None:
    assert pause_for(header) == seconds


def test_a_data_set_of_the_hub_is_shown_repaired_and_removed(hub: FakeHub, tmp_path: Path) -> None:
    job = a_job(hub, tmp_path)
    make(job)
    whole = published(hub)
    shown = StringIO()
    show(OUTPUT, access_of(job), records=1, as_json=False, stream=shown)
    assert "train-00000-of-00002.jsonl" in shown.getvalue()

    lost = next(path for path in whole if path.endswith(".jsonl"))
    hub.commit({path: content for path, content in hub.at("main")[1].items() if path != f"data/{lost}"})
    with pytest.raises(NotWhole, match=f"{lost} is missing"):
        verify(OUTPUT, access_of(job))
    assert repair(OUTPUT, access_of(job), job=job).shards == [lost]
    assert {path: content for path, content in published(hub).items() if "/reports/" not in path} == {
        path: content for path, content in whole.items() if "/reports/" not in path
    }
    assert repair(OUTPUT, access_of(job), job=job).shards == []

    hub.log.clear()
    result = remove(OUTPUT, access_of(job), runs=[verify(OUTPUT, access_of(job)).run_id])
    assert (result.files, result.kept) == (len(whole) - 2, 0)
    assert hub.at("main")[1] == CARD
    assert titles(hub) == ["Publish data with dataprep"]
    assert list(hub.branches) == ["main"]


def test_a_data_set_is_copied_to_the_hub(hub: FakeHub, tmp_path: Path) -> None:
    make(a_job(hub, tmp_path, uri=str(tmp_path / "out")))
    spec = {"source": {"dataset": {"uri": str(tmp_path / "out")}}, "output": {"uri": OUTPUT, "format": "copy"}}
    copy = parse_job(spec | {"stores": [{"uriPrefix": "hf://", "endpoint": hub.endpoint}]}, name="copy")
    make(copy)
    check_same_data(hub, tmp_path / "out")
    assert titles(hub) == ["Publish data with dataprep"]


def test_another_branch_and_the_complete_repository_are_outputs(hub: FakeHub, tmp_path: Path) -> None:
    hub.commit({".gitattributes": b""}, branch="v2")
    uri = "hf://datasets/org/set@v2"
    make(a_job(hub, tmp_path, uri=uri))
    assert hub.at("main")[1] == CARD
    assert "_SUCCESS" in published(hub, "", "v2")
    assert ".dataprep-base.json" not in published(hub, "", "v2")
    assert verify(uri, access_of(a_job(hub, tmp_path))).records_out == 6


def test_the_input_of_an_output_on_the_hub_is_not_scanned(hub: FakeHub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A scan would need a commit for each result. The Hub would keep these files in its history even after they are removed."""
    monkeypatch.setattr(scans, "PART_BYTES", 1)
    monkeypatch.setattr(scans, "LEAST_PART_BYTES", 1)
    on_disk = a_job(hub, tmp_path, days=3, uri=str(tmp_path / "out"))
    job = a_job(hub, tmp_path, days=3)
    assert scan_step.scan_request(on_disk, access_of(on_disk)) is not None
    assert scan_step.scan_request(job, access_of(job)) is None
    assert hub.log == []
