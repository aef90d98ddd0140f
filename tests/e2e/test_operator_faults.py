"""Tests with failing API requests, paused replicas, wrong clocks and repeated crashes. The tests check that jobs continue, and that no step
runs twice.

The operator runs outside the cluster, for the test's namespace only, and with the rights of the installed operator, which is scaled down.
"""

import os
import random
import re
import sys
import time
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path

import pytest
from tests.availability import unavailable

from storeservers.processes import free_ports
from workbench.apiproxy import ApiProxy, Trouble
from workbench.installation import Installation
from workbench.jobs import Namespace, condition
from workbench.outside import OutsideOperator, credentials
from workbench.smalljobs import assert_done_once, phases, small_jobs, wait_all
from workbench.stores import Stores

pytestmark = pytest.mark.apart

TAKE_OVER_SECONDS = 20
"""Another replica takes over a dead leader's work within this time."""

AT_WORK = 0.8
"""The share of kills that wait until the operator has opened its watches. All other kills can come while the operator is starting."""


@pytest.fixture
def kubeconfig(away: Installation) -> Iterator[Path]:
    """The credentials of the installed operator, which is scaled down."""
    with credentials(away) as file:
        yield file


@pytest.fixture
def port() -> int:
    return free_ports("127.0.0.1", count=1)[0]


def test_api_errors_delay_jobs_and_duplicate_nothing(
    namespace: Namespace, stores: Stores, kubeconfig: Path, port: int, tmp_path: Path
) -> None:
    with ApiProxy(kubeconfig, seed=8) as proxy:
        proxy.trouble(0.3)
        outside = OutsideOperator(kubeconfig, port, namespaces=[namespace.name], server=proxy.address, log=tmp_path / "log")
        with outside:
            namespace.apply(*small_jobs(stores, namespace, [f"troubled-{n}" for n in range(4)]))
            wait_all(namespace, "Succeeded", seconds=180)
            assert_done_once(stores, namespace)
            assert outside.ended is None, outside.words()
        assert set(proxy.met) == set(Trouble)
    # These errors are expected and handled; a traceback would be a bug.
    assert re.search(r"dataprep_operator\.workqueue: [^\n]*\nTraceback", outside.words()) is None


def test_a_paused_leader_is_replaced_in_time_and_does_no_harm_when_it_wakes(
    namespace: Namespace, stores: Stores, operator: Installation, kubeconfig: Path, tmp_path: Path
) -> None:
    ports = free_ports("127.0.0.1", count=2)
    with ApiProxy(kubeconfig) as proxy:
        first, second = (
            OutsideOperator(
                kubeconfig,
                port,
                namespaces=[namespace.name],
                server=proxy.address if name == "first" else None,
                lease_namespace=operator.namespace,
                lease_name="dataprep-dataprep-operator",
                identity=name,
                log=tmp_path / name,
            )
            for name, port in zip(("first", "second"), ports, strict=True)
        )
        with first:
            until(first.leads, seconds=60)
            with second:
                namespace.apply(*small_jobs(stores, namespace, ["before", "changed"]))
                until(lambda: set(phases(namespace).values()) & {"Planning", "Running"} != set(), seconds=60)
                first.pause()
                paused = time.monotonic()
                # The paused leader's watches deliver these changes as soon as the leader wakes up.
                namespace.apply(*small_jobs(stores, namespace, ["during"]))
                namespace.kubectl("patch", "dpj", "changed", "--type=merge", '--patch={"spec": {"suspend": true}}')
                until(second.leads, seconds=TAKE_OVER_SECONDS - (time.monotonic() - paused))
                namespace.wait("changed", lambda status: status.get("phase") in ("Suspended", "Succeeded"), what="Suspended", seconds=30)
                woken = time.monotonic()
                first.wake()
                assert first.wait_ended(seconds=5) == 1
                # The pause can begin between the last check of the Lease and the first byte of a request. In this case, only that one
                # request is sent.
                assert len(proxy.writes_since(woken)) <= 1, proxy.writes_since(woken)
                assert "another replica holds the Lease" in first.words() or "was not renewed for 9 s" in first.words()
                namespace.kubectl("patch", "dpj", "changed", "--type=merge", '--patch={"spec": {"suspend": false}}')
                wait_all(namespace, "Succeeded", seconds=120)
                assert second.ended is None
    for job in ("before", "during"):
        assert [child["metadata"]["labels"]["dataprep.io/step"] for child in namespace.all("jobs", selector=f"dataprep.io/job={job}")] == [
            "commit",
            "convert",
            "plan",
        ]


@pytest.mark.parametrize(
    "everywhere", [pytest.param(False, id="of the namespace", marks=pytest.mark.nightly), pytest.param(True, id="of all namespaces")]
)
def test_a_second_release_does_not_start_where_another_one_runs(
    namespace: Namespace, operator: Installation, kubeconfig: Path, tmp_path: Path, everywhere: bool
) -> None:
    ports = free_ports("127.0.0.1", count=2)
    first = OutsideOperator(
        kubeconfig,
        ports[0],
        namespaces=[namespace.name],
        identity="first",
        lease_namespace=operator.namespace,
        lease_name="dataprep-dataprep-operator",
        log=tmp_path / "first",
    )
    second = OutsideOperator(
        kubeconfig,
        ports[1],
        namespaces=[] if everywhere else [namespace.name],
        identity="second",
        lease_namespace=operator.namespace,
        lease_name="another",
        log=tmp_path / "second",
    )
    with first:
        until(first.leads, seconds=60)
        second.start()
        try:
            assert second.wait_ended(seconds=60) == 4
        finally:
            second.stop()
        # Releases of other tests might be running in other namespaces, and the message might name any of these releases.
        where = r"test-\w+" if everywhere else re.escape(namespace.name)
        said = f"The release \\S+ already manages the namespace {where}, so this release, {operator.namespace}/another, doesn't start"
        assert re.search(said, second.words())
        assert first.ended is None


def test_an_operator_with_a_wrong_clock_uses_the_api_servers_time(
    namespace: Namespace, stores: Stores, kubeconfig: Path, port: int, tmp_path: Path
) -> None:
    """The operator judges deadlines, pending pods and terminating pods by timestamps that the cluster has written."""
    shifted = {"FAKETIME": "+2h", "FAKETIME_DONT_FAKE_MONOTONIC": "1", "LD_PRELOAD": faketime()}
    with (
        ApiProxy(kubeconfig) as proxy,
        OutsideOperator(
            kubeconfig, port, namespaces=[namespace.name], server=proxy.address, environment=shifted, log=tmp_path / "log"
        ) as outside,
    ):
        nowhere, late = small_jobs(stores, namespace, ["nowhere", "late"], activeDeadlineSeconds=600)
        nowhere["spec"]["workers"]["nodeSelector"] = {"no": "where"}
        nowhere["spec"] |= {"startDeadlineSeconds": 12, "activeDeadlineSeconds": 3600}
        began = time.monotonic()
        namespace.apply(nowhere, late)
        failed = namespace.wait_phase("nowhere", "Failed", seconds=40)
        assert time.monotonic() - began >= 10
        assert condition(failed, "Failed")["reason"] == "StartDeadlineExceeded"
        done = namespace.wait_phase("late", "Succeeded")
        assert abs(datetime.fromisoformat(done["startTime"]).timestamp() - time.time()) < 120
        assert "clock" in outside.words()


@pytest.mark.long
def test_the_operator_dies_again_and_again(namespace: Namespace, stores: Stores, kubeconfig: Path, port: int, tmp_path: Path) -> None:
    """`make chaos` kills the operator 100 times during 50 jobs. If the 50 jobs finish too early, more jobs follow."""
    kills, jobs, seed = int(os.environ.get("CHAOS", "4")), int(os.environ.get("CHAOS_JOBS", "3")), int(os.environ.get("SEED", "8"))
    chance = random.Random(seed)  # noqa: S311  # kills are reproducible by the seed
    outside = OutsideOperator(kubeconfig, port, namespaces=[namespace.name], log=tmp_path / "log")
    outside.start()
    rounds, killed, met = 1, 0, set[str]()
    namespace.apply(*small_jobs(stores, namespace, [f"chaos-{rounds}-{n}" for n in range(jobs)]))
    try:
        while killed < kills:
            if chance.random() < AT_WORK:
                outside.wait_ready()
            time.sleep(chance.uniform(0.1, 2.0))
            outside.kill()
            killed += 1
            now = set(phases(namespace).values())
            met |= now
            if now == {"Succeeded"} and killed < kills:
                assert_done_once(stores, namespace)
                rounds += 1
                namespace.kubectl("delete", "dpj", "--all", "--wait=false")
                until(lambda: not namespace.all("jobs") and not namespace.all("pods"), seconds=60)
                namespace.apply(*small_jobs(stores, namespace, [f"chaos-{rounds}-{n}" for n in range(jobs)]))
            if killed % 10 == 0:
                sys.stdout.write(f"killed {killed} times of {kills}\n")
            outside.start()
        took = wait_all(namespace, "Succeeded", seconds=60 + 10 * jobs)
        assert_done_once(stores, namespace)
    finally:
        outside.stop()
    sys.stdout.write(
        f"killed {killed} times during {rounds * jobs} jobs (seed {seed}), which were {sorted(met)}; done {took:.0f} s later\n"
    )


def until(found: Callable[[], bool], *, seconds: float) -> None:
    """Polls until the condition is true."""
    deadline = time.monotonic() + seconds
    while not found():
        assert time.monotonic() < deadline, f"timed out after {seconds:.0f} s"
        time.sleep(0.2)


def faketime() -> str:
    """libfaketime, a Debian package."""
    found = sorted(Path("/usr/lib").glob("*/faketime/libfaketime.so.1"))
    return str(found[0]) if found else unavailable("libfaketime: apt-get install libfaketime")
