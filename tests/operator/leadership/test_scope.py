"""If two releases overlap, the second release doesn't start, and its message names the first release.

It makes no difference which of the two can see the other's marker.
"""

import asyncio
from datetime import timedelta

import pytest
from tests.operator.world import START, FakeCluster

from dataprep_api import names
from dataprep_api.resources.cron import DataPrepCronJobStatus
from dataprep_operator import __main__ as program
from dataprep_operator.cluster.cluster import LEASES, Body
from dataprep_operator.decisions import crons
from dataprep_operator.errors import NotFound, Overlap, Refused, Unavailable
from dataprep_operator.informer import handlers
from dataprep_operator.leadership import scope
from dataprep_operator.leadership.scope import EXPIRY_SECONDS, Scope
from dataprep_operator.objects.observed import Key
from dataprep_operator.settings import Settings


class Stopped(Exception):
    """An exception that ends `keep` after it has renewed and checked the markers once."""


class Releases:
    """Several releases on one cluster.

    Time advances only while one of the releases sleeps. During the sleep, the other releases renew their markers.
    """

    def __init__(self) -> None:
        self.cluster = FakeCluster()
        self.running: list[Scope] = []
        self._at_work = False

    def release(self, name: str, *namespaces: str, operator_class: str | None = None) -> Scope:
        settings = Settings(lease_namespace=name, lease_name="dp", namespaces=namespaces, operator_class=operator_class)
        return Scope(self.cluster, settings=settings, clock=lambda: self.cluster.now, sleep=self._sleep)

    def start(self, name: str, *namespaces: str, operator_class: str | None = None) -> Scope:
        made = self.release(name, *namespaces, operator_class=operator_class)
        asyncio.run(made.claim())
        self.running.append(made)
        self.cluster.now += timedelta(seconds=1)
        return made

    def renew(self, made: Scope) -> None:
        """Run `keep` until it has renewed and checked the markers once."""
        self._at_work = True
        rounds = iter([None])

        async def one(_: float) -> None:
            if next(rounds, Stopped) is Stopped:
                raise Stopped

        made._sleep = one
        try:
            asyncio.run(made.keep())
        except Stopped:
            pass
        finally:
            made._sleep, self._at_work = self._sleep, False

    async def _sleep(self, seconds: float) -> None:
        self.cluster.now += timedelta(seconds=seconds)
        assert self.cluster.now < START + timedelta(hours=1), "the release waits forever"
        for each in self.running:
            for place in each._namespaces:
                await each._claim_marker(place)
            if each._is_clusterwide:
                await each._check_others(begins=False)

    def marker(self, namespace: str) -> Body:
        return self.cluster.objects[("leases", namespace, scope.marker(None))]


@pytest.fixture
def releases() -> Releases:
    return Releases()


def test_two_releases_of_one_namespace_are_not_two(releases: Releases) -> None:
    releases.start("one", "team-a", "team-b")

    said = r"^The release one/dp already manages the namespace team-b, so this release, two/dp, doesn't start. Configure different namespaces for one of the two releases, or give it a separate operator class"
    with pytest.raises(Overlap, match=said):
        releases.start("two", "team-b", "team-c")


def test_releases_of_different_namespaces_live_together(releases: Releases) -> None:
    for made in (releases.start("one", "team-a"), releases.start("two", "team-b")):
        releases.renew(made)


def test_one_for_all_namespaces_gives_way_to_one_for_some(releases: Releases) -> None:
    releases.start("one", "team-a")

    with pytest.raises(Overlap, match=r"^The release one/dp already manages the namespace team-a, so this release, all/dp, doesn't start"):
        releases.start("all")


def test_one_for_some_namespaces_gives_way_to_one_for_all(releases: Releases) -> None:
    releases.start("all")

    with pytest.raises(
        Overlap, match=r"^The release all/dp already manages all namespaces, including team-a, so this release, one/dp, doesn't start"
    ):
        releases.start("one", "team-a")


def test_two_for_all_namespaces_are_not_two(releases: Releases) -> None:
    releases.start("one")

    with pytest.raises(Overlap, match=r"^The release one/dp already manages the namespace one, so this release, two/dp, doesn't start"):
        releases.start("two")


def test_classes_share_namespaces(releases: Releases) -> None:
    releases.start("all")
    releases.start("blue", operator_class="blue")
    releases.start("one", "team-a", operator_class="green")

    with pytest.raises(Overlap):
        releases.start("two", "team-a", operator_class="blue")


def test_who_comes_while_the_first_is_away_is_there_first(releases: Releases) -> None:
    releases.start("all")
    releases.running.clear()
    releases.cluster.now += timedelta(seconds=EXPIRY_SECONDS + 1)
    releases.start("one", "team-a")

    with pytest.raises(Overlap, match="The release one/dp already manages the namespace team-a"):
        releases.start("all")


def test_replicas_of_one_release_are_one_and_keep_its_turn(releases: Releases) -> None:
    releases.start("one", "team-a")
    since = releases.marker("team-a")["spec"]["acquireTime"]

    before = releases.cluster.now
    asyncio.run(releases.release("one", "team-a").claim())
    assert releases.marker("team-a")["spec"]["acquireTime"] == since
    assert releases.cluster.now == before, "a takeover does not wait"


def test_a_release_that_is_gone_is_outlived(releases: Releases) -> None:
    releases.start("one", "team-a")
    releases.running.clear()

    releases.start("two", "team-a")
    assert releases.marker("team-a")["spec"]["holderIdentity"] == "two/dp"


def test_a_release_without_the_right_works_all_the_same(releases: Releases, caplog: pytest.LogCaptureFixture) -> None:
    releases.cluster.refusals[("get", LEASES.plural)] = Refused("leases is forbidden")

    releases.start("one", "team-a")
    assert "can't check for other releases in the namespace team-a: leases is forbidden" in caplog.text


def test_a_release_that_may_not_list_other_namespaces_works_all_the_same(releases: Releases, caplog: pytest.LogCaptureFixture) -> None:
    releases.cluster.refusals[("list", LEASES.plural)] = Refused("leases is forbidden")

    releases.renew(releases.start("all"))
    assert caplog.text.count("can't check for other releases in other namespaces: leases is forbidden") == 1
    assert releases.marker("all")["spec"]["holderIdentity"] == "all/dp"


def test_a_release_that_may_not_write_to_another_s_marker_works_all_the_same(releases: Releases, caplog: pytest.LogCaptureFixture) -> None:
    everywhere = releases.start("all")
    body = releases.marker("all")
    other = body | {"metadata": body["metadata"] | {"namespace": "team-a"}, "spec": body["spec"] | {"holderIdentity": "one/dp"}}
    releases.cluster.objects[("leases", "team-a", scope.marker(None))] = other
    releases.cluster.refusals[("replace", LEASES.plural)] = Refused("leases is forbidden")

    asyncio.run(everywhere._check_others(begins=True))
    assert "can't refuse the release one/dp in team-a: leases is forbidden" in caplog.text


def test_a_namespace_that_is_not_there_holds_nobody_up(releases: Releases) -> None:
    releases.cluster.refusals[("create", LEASES.plural)] = NotFound('namespaces "team-a" not found')
    made = releases.start("one", "team-a")

    releases.cluster.refusals.clear()
    releases.renew(made)
    assert releases.marker("team-a")["spec"]["holderIdentity"] == "one/dp"


def test_an_api_server_that_is_away_is_waited_for(releases: Releases) -> None:
    releases.cluster.refusals[("get", LEASES.plural)] = Unavailable("away")
    made = releases.release("one", "team-a")

    async def back(_: float) -> None:
        releases.cluster.refusals.clear()

    made._sleep = back
    asyncio.run(made.claim())
    assert releases.marker("team-a")["spec"]["holderIdentity"] == "one/dp"


def test_a_schedule_s_jobs_are_of_its_class(releases: Releases) -> None:
    raw = {
        "metadata": {"name": "nightly", "namespace": "a", "uid": "u", "labels": {names.LABEL_CLASS: "blue"}},
        "spec": {"schedule": "0 0 * * *", "jobTemplate": {"spec": {"output": {"uri": "s3://out/x"}}}},
    }
    seen = crons.ObservedCron(
        key=Key("a", "nightly"),
        uid="u",
        generation=1,
        created=releases.cluster.now,
        raw=raw,
        status=DataPrepCronJobStatus(),
        spec=None,
        schedule=None,
    )

    assert crons.job_body(seen, releases.cluster.now)["metadata"]["labels"][names.LABEL_CLASS] == "blue"


def test_an_overlap_has_an_exit_code_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    async def overlapping(_: Settings) -> None:
        raise Overlap("The release one/dp already manages the namespace team-a")

    monkeypatch.setattr(program, "serve", overlapping)
    assert program.main([]) == 4


@pytest.mark.parametrize(("operator_class", "selector"), [(None, f"!{names.LABEL_CLASS}"), ("blue", f"{names.LABEL_CLASS}=blue")])
def test_a_release_watches_its_class(operator_class: str | None, selector: str) -> None:
    chosen = handlers.operator_settings(Settings(operator_class=operator_class)).watching.label_selectors

    assert chosen["dataprep.io", "v1alpha1", "dataprepjobs"] == selector
    assert chosen["dataprep.io", "v1alpha1", "dataprepcronjobs"] == selector
    assert ("dataprep.io", "v1alpha1", "dataprepprofiles") not in chosen
