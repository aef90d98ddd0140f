"""`hf://` as the output of jobs. The library itself sends requests to a fake of the Hub: for the working branch, and for the commit that
publishes it."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from threading import Barrier, BrokenBarrierError, Thread
from typing import Any

import httpx2
import huggingface_hub.constants
import pytest
from huggingface_hub.utils._http import default_client_factory
from tests.builders import pairs
from tests.builders.specs import parse_job
from tests.converter.stores.crashing import Killed
from tests.converter.stores.hub_fake import FakeHub, fake_hub

from dataprep_api import names
from dataprep_api.dataset.plan import Owner, shards
from dataprep_api.resources.job import DataPrepJob
from dataprep_converter.cli.display import Display
from dataprep_converter.core.errors import (
    BadCredentials,
    BadSpec,
    ConvertError,
    NotFound,
    NotPermitted,
    NotWhole,
    OutputExists,
    OutputLost,
    Unreachable,
)
from dataprep_converter.dataset.output_folder import OutputFolder
from dataprep_converter.dataset.stored_plan import load_plan
from dataprep_converter.inputs.access import Access
from dataprep_converter.inputs.store_settings import settings_for
from dataprep_converter.runtime import scans
from dataprep_converter.steps import one_pod
from dataprep_converter.steps.conversion import convert_commit, convert_work, scan_step
from dataprep_converter.steps.plan_step import PlannedRun, dry_run, run_plan_step
from dataprep_converter.steps.remove import remove
from dataprep_converter.steps.run import run
from dataprep_converter.stores.hub_repository import pause_for
from dataprep_converter.tools.inspect.inspection import show
from dataprep_converter.tools.repair import repair
from dataprep_converter.tools.verification import verify

OUTPUT = "hf://datasets/org/set/data"
# The library sends large files with an argument that its own HTTP client warns about.
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore:Use 'content=:DeprecationWarning")]
CARD = {"README.md": b"# set", ".gitattributes": b"*.parquet filter=lfs"}


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeHub]:
    monkeypatch.delenv("HF_TOKEN", raising=False)
    # The fake has no Xet storage. The environment variable is for the processes of a pool.
    monkeypatch.setenv("HF_HUB_DISABLE_XET", "1")
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_DISABLE_XET", True)
    with fake_hub() as running:
        running.commit(CARD)
        yield running


def a_job(hub: FakeHub, folder: Path, *, rows: int = 6, days: int = 1, uri: str = OUTPUT, **output: Any) -> DataPrepJob:
    """Makes two shards from the CSV files in a folder."""
    (folder / "in").mkdir(exist_ok=True)
    for day in range(days):
        path, text = folder / f"in/{day}.csv", "x,label\n" + "".join(f"{day * 100 + row},{row % 2}\n" for row in range(rows))
        if not path.exists() or path.read_text() != text:
            path.write_text(text)
    return parse_job(
        {
            "source": {"csv": {"uris": [str(folder / "in")], "header": True}},
            "output": {"uri": uri, "format": "jsonl", "shards": {"count": 2}, "overwrite": "IfChanged"} | output,
            "stores": [{"uriPrefix": "hf://", "endpoint": hub.endpoint}],
        },
        name="hub",
    )


def access_of(job: DataPrepJob) -> Access:
    return Access(settings_for(job.spec.stores, None))


def make(job: DataPrepJob, *, workers: int = 1) -> None:
    run(job, access=access_of(job), workers=workers, display=Display(quiet=True))


def access_of_a_pod(job: DataPrepJob) -> Access:
    access = access_of(job)
    access.write_to(job.spec.output.uri)
    return access


def work(job: DataPrepJob, planned: PlannedRun) -> None:
    """Runs the workers, as their pods would. Each worker has its own clients."""
    for shard in shards(planned.plan.head):
        access = access_of_a_pod(job)
        plan = load_plan(OutputFolder(job.spec.output.uri, access).of_run(planned.result.run_id), planned.result.plan_sha256)
        convert_work.work(job.spec, plan=plan, shards=[shard], access=access, attempt="1", watch=lambda _: None)


def commit(job: DataPrepJob, planned: PlannedRun) -> None:
    access = access_of_a_pod(job)
    plan = load_plan(OutputFolder(job.spec.output.uri, access).of_run(planned.result.run_id), planned.result.plan_sha256)
    convert_commit.commit(job.spec, plan=plan, access=access)


def published(hub: FakeHub, folder: str = "data/", branch: str = "main") -> dict[str, bytes]:
    """The data set's files as readers of a branch see them."""
    files = hub.at(branch)[1]
    return {path.removeprefix(folder): content for path, content in files.items() if path.startswith(folder)}


def on_disk(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def check_same_data(hub: FakeHub, folder: Path, *, but: str = "/reports/") -> None:
    """Checks that readers see the same files on the Hub as in a local folder.

    Only the pins in the reports, the lists of file addresses and the file `but` may differ.
    """
    ours, expected = published(hub), on_disk(folder)
    assert ours.keys() == expected.keys()
    placed = ("/reports/", "/paths/", "/input_data_config.json", but)
    assert [path for path in ours if ours[path] != expected[path] and not any(part in path for part in placed)] == []


@dataclass
class Life:
    """Counts the requests of a process until the process dies."""

    requests: int = 0
    dead: bool = False

    def die(self) -> None:
        """Refuses all requests from now on."""
        self.dead = True
        raise Killed


@contextmanager
def killed_at(number: int, moment: str, *, when: Callable[[httpx2.Request], bool] = lambda _: True) -> Iterator[Life]:
    """Within the block, this process counts as dead just before or just after its request with this number. All later requests are
    refused."""
    life = Life()

    def before(request: httpx2.Request) -> None:
        if life.dead:
            raise Killed
        life.requests += when(request)
        if life.requests == number and when(request) and moment == "before":
            life.die()

    def after(response: httpx2.Response) -> None:
        if life.requests == number and when(response.request) and moment == "after":
            life.die()

    huggingface_hub.set_client_factory(
        lambda: httpx2.Client(event_hooks={"request": [before], "response": [after]}, follow_redirects=True, timeout=None)
    )
    try:
        yield life
    finally:
        huggingface_hub.set_client_factory(default_client_factory)


def titles(hub: FakeHub, branch: str = "main") -> list[str]:
    return [title for name, title in hub.log if name == branch]


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


def test_a_death_between_the_two_steps_of_taking_over_leaves_the_published_data_set(hub: FakeHub, tmp_path: Path) -> None:
    make(a_job(hub, tmp_path))
    earlier = published(hub)
    changed = a_job(hub, tmp_path, rows=8)
    commits = len(hub.log)

    def has_claimed(request: httpx2.Request) -> bool:
        return "/commit/" in request.url.path and len(hub.log) == commits + 2

    # The process dies after it has committed the base and OWNER, and before it removes the earlier run's `_SUCCESS`.
    with killed_at(1, "before", when=has_claimed), pytest.raises(Killed):
        make(changed)
    with killed_at(1, "before", when=has_claimed), pytest.raises(Killed):
        make(changed)
    assert published(hub) == earlier
    assert verify(OUTPUT, access_of(changed)).records_out == 6
    make(changed)
    assert verify(OUTPUT, access_of(changed)).records_out == 8
    assert (len(titles(hub)), list(hub.branches)) == (2, ["main"])


LAST = 340
"""A number greater than the number of requests that the job sends."""
FEW = 60
"""A test whose number exceeds the number of requests that the job sends is skipped. If the difference is more than this, the test fails
instead. The job sends 285 to 320 requests. The number varies because threads share commits."""
POINTS = [1, 33, 86, 150, 220, 262, 276, 281]
"""The requests at which `make test` ends a process. The moments alternate: before one request, after the next one, and so on."""


MOMENTS = ("before", "after")


def is_by_day(number: int, moment: str) -> bool:
    return number in POINTS and pairs.has_turn(number, moment, POINTS, MOMENTS)


@pytest.mark.parametrize(
    ("number", "moment"), pairs.chosen(((number, moment) for number in range(1, LAST + 1) for moment in MOMENTS), is_by_day)
)
def test_a_death_at_any_request_shows_nothing_and_costs_nothing(hub: FakeHub, tmp_path: Path, number: int, moment: str) -> None:
    job = a_job(hub, tmp_path)
    with killed_at(number, moment) as life, suppress(Killed):
        make(job)
    seen = published(hub)
    assert seen == {} or "_SUCCESS" in seen
    assert life.requests < LAST, "the job's last requests aren't tested: raise LAST"
    if life.requests < number:
        assert number <= life.requests + FEW, f"the job has only {life.requests} requests: lower LAST, and take other POINTS"
        pytest.skip(f"the job has only {life.requests} requests")
    made = {path: content for name in hub.branches for path, content in published(hub, branch=name).items()}
    make(job)
    make(a_job(hub, tmp_path, uri=str(tmp_path / "out")))
    # A process that dies after it has written `_SUCCESS` can leave its name in OWNER.
    check_same_data(hub, tmp_path / "out", but=names.OWNER)
    ours, expected = (Owner.model_validate_json(files[names.OWNER]) for files in (published(hub), on_disk(tmp_path / "out")))
    assert (ours.run_id, ours.epoch) == (expected.run_id, expected.epoch)
    assert list(hub.branches) == ["main"]
    # The reports contain the time that each shard took. The reports are unchanged, so no finished shard was made again.
    assert {path: content for path, content in made.items() if "/reports/" in path}.items() <= published(hub).items()
    assert len(titles(hub)) == 1


def test_a_commit_of_an_earlier_owner_is_refused(hub: FakeHub, tmp_path: Path) -> None:
    job = a_job(hub, tmp_path)
    planned = run_plan_step(job, access_of(job))
    work(job, planned)
    newer = a_job(hub, tmp_path, rows=8)
    taken: list[PlannedRun] = []

    def take_over(branch: str) -> None:
        # The sleeping process has staged `_SUCCESS`, and read OWNER.
        if any("manifest.json" in path for path in published(hub, branch=branch)) and not taken:
            hub.before_commit = lambda _: None
            taken.append(run_plan_step(newer, access_of(newer)))

    hub.before_commit = take_over
    with pytest.raises(OutputLost, match=f"^{OUTPUT} no longer belongs to run {planned.result.run_id}: run [0-9a-f]+ has taken it over"):
        commit(job, planned)
    assert published(hub) == {}
    work(newer, taken[0])
    commit(newer, taken[0])
    assert verify(OUTPUT, access_of(newer)).run_id == taken[0].result.run_id


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


def test_the_removal_of_an_unfinished_run_leaves_the_published_data_set(hub: FakeHub, tmp_path: Path) -> None:
    make(a_job(hub, tmp_path))
    earlier = published(hub)
    changed = a_job(hub, tmp_path, rows=8)
    planned = run_plan_step(changed, access_of(changed))
    work(changed, planned)
    assert remove(OUTPUT, access_of(changed), runs=[planned.result.run_id]).files == 0
    assert (published(hub), list(hub.branches)) == (earlier, ["main"])


def test_a_removal_does_not_mind_files_of_others_beside_a_run_that_only_began(hub: FakeHub, tmp_path: Path) -> None:
    job = a_job(hub, tmp_path)
    # The process dies before its second commit: it has committed the base, but not OWNER.
    with killed_at(2, "before", when=lambda request: "/commit/" in request.url.path), pytest.raises(Killed):
        make(job)
    hub.commit(CARD | {"data/late.txt": b"mine"})
    assert remove(OUTPUT, access_of(job), runs=["0" * 16]).files == 0
    assert (published(hub), list(hub.branches)) == ({"late.txt": b"mine"}, ["main"])


def a_branch_without_a_change(hub: FakeHub, job: DataPrepJob) -> str:
    """Begins a working branch whose base is no longer the newest commit. Returns the branch's name."""
    OutputFolder(OUTPUT, access_of_a_pod(job)).begin()
    hub.commit(CARD | {"other.txt": b"pushed"})
    return next(name for name in hub.branches if name != "main")


def test_a_branch_without_a_change_begins_again(hub: FakeHub, tmp_path: Path) -> None:
    job = a_job(hub, tmp_path)
    branch = a_branch_without_a_change(hub, job)
    OutputFolder(OUTPUT, access_of_a_pod(job)).begin()
    assert published(hub, "", branch)["other.txt"] == b"pushed"


def test_a_branch_on_which_another_job_has_begun_meanwhile_is_not_begun_again(hub: FakeHub, tmp_path: Path) -> None:
    job = a_job(hub, tmp_path)
    branch = a_branch_without_a_change(hub, job)
    trees: list[str] = []

    def take(request: str) -> None:
        trees.extend([request] * ("/tree/" in request))
        if len(trees) == 2 and "OWNER" not in published(hub, branch=branch):
            # The process has read both trees, and so believes that the branch is unchanged.
            hub.commit(hub.at(branch)[1] | {"data/OWNER": b"another job"}, branch)

    hub.before_request = take
    OutputFolder(OUTPUT, access_of_a_pod(job)).begin()
    assert published(hub, branch=branch) == {"OWNER": b"another job"}


@pytest.mark.parametrize("before_the_end", [1, 2, 6])
def test_a_removal_leaves_the_branch_to_a_run_that_takes_it_over_meanwhile(hub: FakeHub, tmp_path: Path, before_the_end: int) -> None:
    job = a_job(hub, tmp_path)
    planned = run_plan_step(job, access_of(job))
    commits, branches, sent = dict(hub.commits), dict(hub.branches), len(hub.requests)
    remove(OUTPUT, access_of(job), runs=[planned.result.run_id])
    deleting = next(number for number, request in enumerate(hub.requests[sent:]) if request.startswith("DELETE "))
    hub.commits, hub.branches, sent = commits, branches, len(hub.requests)
    newer, taken = a_job(hub, tmp_path, rows=8), list[PlannedRun]()

    def take_over(_: str) -> None:
        if len(hub.requests) - sent > deleting - before_the_end and not taken:
            hub.before_request = lambda _: None
            taken.append(run_plan_step(newer, access_of(newer)))

    hub.before_request = take_over
    result = remove(OUTPUT, access_of(job), runs=[planned.result.run_id])
    assert (result.files, result.owner) == (0, taken[0].result.run_id)
    work(newer, taken[0])
    commit(newer, taken[0])
    assert verify(OUTPUT, access_of(newer)).records_out == 8


def test_a_run_that_takes_the_branch_over_while_another_is_published_is_published_too(hub: FakeHub, tmp_path: Path) -> None:
    job = a_job(hub, tmp_path)
    planned = run_plan_step(job, access_of(job))
    work(job, planned)
    newer = a_job(hub, tmp_path, rows=8)
    run_id = dry_run(newer, access_of(newer)).run_id

    def take_over(branch: str) -> None:
        if branch == "main":
            hub.before_commit = lambda _: None
            [working] = set(hub.branches) - {"main"}
            hub.commit(hub.at(working)[1] | {f"data/{names.OWNER}": Owner(run_id=run_id, epoch=2).to_bytes()}, working)

    hub.before_commit = take_over
    commit(job, planned)
    assert verify(OUTPUT, access_of(job)).records_out == 6
    planned = run_plan_step(newer, access_of(newer))
    assert planned.result.run_id == run_id
    work(newer, planned)
    commit(newer, planned)
    assert verify(OUTPUT, access_of(newer)).records_out == 8
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


def test_the_input_of_an_output_on_the_hub_is_not_scanned(hub: FakeHub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A scan would need a commit for each result, and the Hub would keep these files even after they are removed."""
    monkeypatch.setattr(scans, "PART_BYTES", 1)
    monkeypatch.setattr(scans, "LEAST_PART_BYTES", 1)
    on_disk = a_job(hub, tmp_path, days=3, uri=str(tmp_path / "out"))
    job = a_job(hub, tmp_path, days=3)
    assert scan_step.scan_request(on_disk, access_of(on_disk)) is not None
    assert scan_step.scan_request(job, access_of(job)) is None
    assert hub.log == []
