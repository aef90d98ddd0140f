"""Jobs and removals that take over a folder on the Hub while other jobs or removals are working in it."""

from pathlib import Path

import pytest
from tests.converter.stores.crashing import Killed
from tests.converter.stores.hub_fake import FakeHub
from tests.converter.stores.hub_jobs import CARD, OUTPUT, a_job, access_of, access_of_a_pod, commit, killed_at, make, published, work

from dataprep_api import names
from dataprep_api.dataset.plan import Owner
from dataprep_api.resources.job import DataPrepJob
from dataprep_converter.core.errors import (
    OutputLost,
)
from dataprep_converter.dataset.output_folder import OutputFolder
from dataprep_converter.steps.plan_step import PlannedRun, dry_run, run_plan_step
from dataprep_converter.steps.remove import remove
from dataprep_converter.tools.verification import verify

# The library sends large files with an argument that its own HTTP client warns about.
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore:Use 'content=:DeprecationWarning")]


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
