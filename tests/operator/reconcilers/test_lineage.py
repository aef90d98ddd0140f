"""OpenLineage events that the operator sends to a real HTTP server."""

import threading
from collections.abc import Iterator

import pytest
from tests.builders.lineage_receiver import Received, lineage_receiver
from tests.operator.world import NAMESPACE, World

from dataprep_api.lineage.sending import Receiver
from dataprep_api.names import LINEAGE_RUN
from dataprep_operator.reconcilers.job import Reconciler
from dataprep_operator.reconcilers.lineage import LineageRecorder
from dataprep_operator.settings import PodDefaults


@pytest.fixture
def received(monkeypatch: pytest.MonkeyPatch) -> Iterator[Received]:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with lineage_receiver() as received:
        yield received


def world_with(receiver: Receiver) -> tuple[World, LineageRecorder]:
    """Returns a world whose operator sends events to this receiver, and the operator's recorder."""
    world = World(pods=PodDefaults(lineage=receiver))
    recorder = LineageRecorder(receiver)
    world.reconciler = Reconciler(
        cache=world.cache,
        cluster=world.cluster,
        progress_store=world.progress_store,
        settings=world.settings,
        clock=lambda: world.cluster.now,
        lineage=recorder,
    )
    return world, recorder


def variables_of(world: World, suffix: str) -> dict[str, str]:
    """The environment variables of a step's pods."""
    (container,) = world.job(suffix)["spec"]["template"]["spec"]["containers"]
    return {variable["name"]: variable["value"] for variable in container["env"] if "value" in variable}


def test_the_operator_sends_the_start_and_the_failure(received: Received) -> None:
    world, recorder = world_with(Receiver(received.url))
    world.running()
    world.fail("convert-1", "PodFailurePolicy")
    assert world.settle() == "Failed"
    recorder.close()

    start, fail = received.events
    assert received.kinds == ["START", "FAIL"]
    assert start["run"]["runId"] == fail["run"]["runId"]
    assert (start["job"]["namespace"], start["job"]["name"]) == (NAMESPACE, "mnist")
    assert start["inputs"]
    assert start["outputs"]
    assert fail["run"]["facets"]["errorMessage"]["message"] == world.message()


def test_the_pods_of_an_attempt_know_its_run_and_no_key(received: Received) -> None:
    world, recorder = world_with(Receiver(received.url, key="hunter2"))
    world.apply()
    world.settle()
    world.committing()
    recorder.close()

    run = received.events[0]["run"]["runId"]
    for suffix in ("plan", "commit-1"):
        variables = variables_of(world, suffix)
        assert variables[LINEAGE_RUN] == run
        assert (variables["OPENLINEAGE_URL"], variables["OPENLINEAGE_NAMESPACE"]) == (received.url, NAMESPACE)
        assert "hunter2" not in str(world.job(suffix))
    assert LINEAGE_RUN not in variables_of(world, "convert-1")
    assert set(received.keys) == {"Bearer hunter2"}


def test_without_a_receiver_the_pods_are_as_before() -> None:
    world = World()
    world.apply()
    world.settle()
    assert not [name for name in variables_of(world, "plan") if "LINEAGE" in name]


def test_a_job_that_is_removed_while_it_runs_is_aborted(received: Received) -> None:
    world, recorder = world_with(Receiver(received.url, namespace="lake"))
    world.running()
    world.cluster.end("dataprepjobs", NAMESPACE, "mnist")
    assert world.settle() == "gone"
    recorder.close()

    assert received.kinds == ["START", "ABORT"]
    assert {event["job"]["namespace"] for event in received.events} == {"lake"}


def test_a_finished_job_that_is_removed_was_not_aborted(received: Received) -> None:
    world, recorder = world_with(Receiver(received.url))
    world.apply()
    assert world.succeed() == "Succeeded"
    world.cluster.end("dataprepjobs", NAMESPACE, "mnist")
    assert world.settle() == "gone"
    recorder.close()

    assert received.kinds == ["START"]


def test_a_silent_receiver_holds_no_reconciliation_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    silent = threading.Event()
    with lineage_receiver(silent=silent) as received:
        world, _ = world_with(Receiver(received.url))
        world.apply()
        assert world.succeed() == "Succeeded"
        assert not silent.is_set()
