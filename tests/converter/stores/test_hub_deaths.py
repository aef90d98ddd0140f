"""The process of a job whose output is `hf://` dies at any of its requests."""

from contextlib import suppress
from pathlib import Path

import httpx2
import pytest
from tests.builders import pairs
from tests.converter.stores.crashing import Killed
from tests.converter.stores.hub_fake import FakeHub
from tests.converter.stores.hub_jobs import OUTPUT, a_job, access_of, check_same_data, killed_at, make, on_disk, published, titles

from dataprep_api import names
from dataprep_api.dataset.plan import Owner
from dataprep_converter.tools.verification import verify

# The library sends large files with an argument that its own HTTP client warns about.
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore:Use 'content=:DeprecationWarning")]


def test_a_death_between_the_two_steps_of_taking_over_leaves_the_published_data_set(hub: FakeHub, tmp_path: Path) -> None:
    make(a_job(hub, tmp_path))
    earlier = published(hub)
    changed = a_job(hub, tmp_path, rows=8)
    commits = len(hub.log)

    def has_claimed(request: httpx2.Request) -> bool:
        return "/commit/" in request.url.path and len(hub.log) == commits + 2

    # The process dies between two steps: it has committed the base and OWNER, but hasn't removed the earlier run's `_SUCCESS`.
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
"""The requests at which `make test` ends a process. Processes are ended before the first of these requests, after the second one, and so
on in turn."""


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
