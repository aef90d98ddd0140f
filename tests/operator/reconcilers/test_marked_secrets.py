"""A secret in any field of a spec never gets into a status, an Event or a child's command line, whether or not the spec is accepted."""

import asyncio
import json
from collections import defaultdict
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest
from tests.operator.world import NAMESPACE, World
from tests.spec_places import FORMS, Path, document, leaks, places

from dataprep_api.resources.cron import DataPrepCronJobSpec
from dataprep_api.resources.profile import DataPrepProfileSpec
from dataprep_operator.objects.observed import Key

PLACES = list(places())
GROUPS: dict[str, list[Path]] = defaultdict(list)
for _place in PLACES:
    GROUPS["/".join(map(str, _place[: 2 if _place[0] == "source" else 1]))].append(_place)
TURNS = [0, *(pytest.param(turn, marks=pytest.mark.nightly) for turn in range(1, len(FORMS)))]
"""In each turn, every field gets another form of a secret, and neighbouring fields get different forms. `make test` runs only the first
turn."""
NAMES = [("profile",), ("script", "framework")]
"""Fields with object names, which are shown unchanged. They are tested only with addresses that contain a secret."""
OWN_WORDS = ("script", "workers")
"""Fields in which users write their own containers or command lines."""


def command_lines(world: World) -> list[Any]:  # Any: JSON
    """Return the commands and arguments of all containers that the operator creates."""
    pods = [body["spec"]["template"]["spec"] for (plural, _, _), body in world.cluster.objects.items() if plural == "jobs"]
    containers = [each for pod in pods for each in [*pod["containers"], *pod.get("initContainers", [])]]
    return [[each.get("command"), each.get("args")] for each in containers]


def form_of(number: int, turn: int, *, forms: Sequence[str] = FORMS) -> str:
    return forms[(number + turn) % len(forms)]


@pytest.mark.slow
@pytest.mark.parametrize("turn", TURNS)
@pytest.mark.parametrize("group", GROUPS)
def test_what_people_see_of_a_job_has_no_secret_of_its_spec(group: str, turn: int) -> None:
    found: list[tuple[Path, str]] = []
    for place in GROUPS[group]:
        form = form_of(PLACES.index(place), turn, forms=FORMS if place not in NAMES else FORMS[1:])
        world = World()
        body = {
            "apiVersion": "dataprep.io/v1alpha1",
            "kind": "DataPrepJob",
            "metadata": {"name": "mnist"},
            "spec": document(place, form),
        }
        world.cluster.add("dataprepjobs", NAMESPACE, body)
        phase = world.settle()
        # The operator doesn't write the status of a job that another controller runs.
        assert phase in ("Failed", "Pending", "Planning") or place == ("managedBy",), (place, form)
        seen = [each if plural == "events" else each.get("status") for (plural, _, _), each in world.cluster.objects.items()]
        if leaks(json.dumps(seen)) or (place[0] not in OWN_WORDS and leaks(json.dumps(command_lines(world)))):
            found.append((place, form))
    assert found == []


@pytest.mark.slow
@pytest.mark.parametrize("turn", TURNS)
def test_a_profile_and_a_schedule_show_no_secret_either(turn: int) -> None:
    found: list[tuple[Path, str]] = []
    for number, place in enumerate(places(DataPrepProfileSpec)):
        form = form_of(number, turn)
        world = World()
        world.cluster.add(
            "dataprepprofiles", NAMESPACE, {"metadata": {"name": "default"}, "spec": document(place, form, DataPrepProfileSpec)}
        )
        world.apply()
        assert world.settle() in ("Failed", "Pending", "Planning")
        if leaks(json.dumps(world.status())) or (place[0] != "workers" and leaks(json.dumps(command_lines(world)))):
            found.append((place, form))
    for number, place in enumerate(places(DataPrepCronJobSpec)):
        form = form_of(number, turn)
        world = World()
        spec = {"schedule": "* * * * *", "jobTemplate": {"spec": {}}} | document(place, form, DataPrepCronJobSpec)
        body = {"apiVersion": "dataprep.io/v1alpha1", "kind": "DataPrepCronJob", "metadata": {"name": "nightly"}, "spec": spec}
        world.cluster.add("dataprepcronjobs", NAMESPACE, body)
        world.cluster.now += timedelta(minutes=2)
        asyncio.run(world.crons.reconcile(Key(NAMESPACE, "nightly", "DataPrepCronJob")))
        seen = [each if plural == "events" else each.get("status") for (plural, _, _), each in world.cluster.objects.items()]
        if leaks(json.dumps(seen)):
            found.append((place, form))
    assert found == []


def test_every_kind_of_place_is_tried() -> None:
    assert {("output", "uri"), ("params", "k"), ("stores", 0, "endpoint"), ("source", "csv", "uris", 0), ("script", "command")} <= set(
        places()
    )
    accepted = 0
    for place in GROUPS["source/csv"]:
        world = World()
        spec = document(place, "x" if place[-1] != "uris" else ["x"])
        world.cluster.add(
            "dataprepjobs",
            NAMESPACE,
            {"apiVersion": "dataprep.io/v1alpha1", "kind": "DataPrepJob", "metadata": {"name": "mnist"}, "spec": spec},
        )
        accepted += world.settle() == "Planning"
    assert accepted >= 5
