"""Messages from pods, the kubelet, the scheduler and the API server are shown without control characters and credentials.

This applies in statuses, Events, ConfigMaps and logs.
"""

import asyncio
import json
import logging
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.operator.world import NAMESPACE, SHA, World, a_failure, retry

from dataprep_api.dataset.messages import BadRecord
from dataprep_api.reasons import Reason
from dataprep_api.redaction import printable
from dataprep_api.resources.status import DataPrepJobStatus
from dataprep_operator import __main__ as command
from dataprep_operator.decisions import events
from dataprep_operator.errors import Refused
from dataprep_operator.objects import redaction, times
from dataprep_operator.objects.observed import Key
from dataprep_operator.settings import Settings

SECRET = "s3cr3t-m4rk"
HOSTILE = f"\x1b]0;owned\x07 \u202egpj.exe \x9b31m https://h/a?X-Amz-Signature={SECRET}, s3://k:{SECRET}@b/x"


def texts(value: Any) -> Iterator[str]:  # Any: JSON
    """Yield every key and every text in a JSON value."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, below in value.items():
            yield from texts(key)
            yield from texts(below)
    elif isinstance(value, list):
        for below in value:
            yield from texts(below)


def written(world: World) -> list[str]:
    """Return all texts that the operator has written for users: statuses, Events and the ConfigMap for training."""
    found: list[str] = []
    for (plural, _, name), body in world.cluster.objects.items():
        if plural in ("dataprepjobs", "dataprepcronjobs"):
            found += texts(body.get("status") or {})
        if plural == "events" or (plural == "configmaps" and name == "mnist"):
            found += texts(body)
    return found


def faults(said: list[str]) -> list[str]:
    return [each for each in said if printable(each) != each or SECRET in each]


def failed_plan(world: World) -> None:
    world.apply()
    world.settle()
    world.plan_fails(a_failure(Reason.BAD_RECORDS, HOSTILE, shard=HOSTILE, input=HOSTILE))
    world.settle()


def failed_task(world: World) -> None:
    world.running()
    world.pod("convert-1", world.ended(4, a_failure(Reason.INTERNAL_ERROR, HOSTILE)), index=0)
    world.settle()


def no_message_of_ours(world: World) -> None:
    world.apply()
    world.settle()
    world.pod("plan", world.ended(0, HOSTILE))
    world.complete("plan")
    world.settle()


def last_words(world: World) -> None:
    world.apply()
    world.settle()
    world.pod("plan", world.ended(9, HOSTILE))
    world.fail("plan", "BackoffLimitExceeded", HOSTILE)
    world.settle()


def a_forged_plan(world: World) -> None:
    world.apply()
    world.settle()
    labels = [{"feature": HOSTILE, "num_classes": 1, "classes": [HOSTILE, "\x1b" * 256]}]
    world.planned(warnings=[HOSTILE], splits=[{"name": HOSTILE, "records": 1, "shards": 1}], labels=labels, plan_uri=HOSTILE)
    world.settle()


def a_forged_run(world: World) -> None:
    world.apply()
    world.settle()
    world.planned(run_id="\x1b" * 64)
    world.settle()


def a_forged_commit(world: World) -> None:
    world.running()
    world.converted()
    world.settle()
    world.committed(
        manifest_uri=HOSTILE,
        quarantine_uri=HOSTILE,
        outputs=[{"uri": HOSTILE, "split": HOSTILE, "bytes": 1, "records": 1, "sha256": SHA}],
        bad=[BadRecord(uri=HOSTILE, reason=HOSTILE)],
        warnings=[HOSTILE],
        channels={"content_type": HOSTILE, "compression_type": "None", "prefixes": {HOSTILE: HOSTILE}},
        splits=[{"name": HOSTILE, "records": 1, "shards": 1}],
    )
    assert world.settle() == "Succeeded"


def a_forged_digest(world: World) -> None:
    world.running()
    world.converted()
    world.settle()
    world.committed(manifest_sha256="\x1b" * 64)
    assert world.settle() == "Failed"


def held_by_the_kubelet(world: World) -> None:
    world.apply()
    world.settle()
    world.pod("plan", world.waiting("ErrImagePull", HOSTILE))
    world.later(40)


def held_by_the_scheduler(world: World) -> None:
    world.apply()
    world.settle()
    world.pod("plan", world.unschedulable(HOSTILE))
    world.settle()


def refused_by_the_server(world: World) -> None:
    world.apply()
    world.cluster.refusals[("create", "jobs")] = Refused(HOSTILE)
    world.settle()
    world.later(40)


def evicted(world: World) -> None:
    world.running()
    status = world.ended(137, HOSTILE)
    condition = {"type": "DisruptionTarget", "status": "True", "reason": HOSTILE, "lastTransitionTime": times.text(world.cluster.now)}
    world.pod("convert-1", {**status, "conditions": [*status["conditions"], condition]}, index=0)
    world.settle()


def an_invalid_spec(world: World) -> None:
    world.apply(output={"uri": HOSTILE}, workers={"memory": HOSTILE, HOSTILE: HOSTILE})
    world.settle()


LIVES = [
    failed_plan,
    failed_task,
    no_message_of_ours,
    last_words,
    a_forged_plan,
    a_forged_run,
    a_forged_commit,
    a_forged_digest,
    held_by_the_kubelet,
    held_by_the_scheduler,
    refused_by_the_server,
    evicted,
    an_invalid_spec,
]


@pytest.mark.parametrize("life", LIVES, ids=lambda life: life.__name__)
def test_no_escape_and_no_credential_is_written(life: Callable[[World], None], world: World) -> None:
    life(world)

    said = written(world)
    assert faults(said) == []
    DataPrepJobStatus.model_validate(world.status())  # the status is within every limit; otherwise the API server would refuse it


def test_the_rest_of_such_a_text_stays(world: World) -> None:
    failed_plan(world)

    assert r"\u001b]0;owned\u0007 \u202egpj.exe \u009b31m https://h/a?…, s3://…@b/x" in world.message()
    assert world.status()["failures"][0]["input"] == world.message()


def test_a_digest_of_another_form_is_a_fault(world: World) -> None:
    a_forged_digest(world)

    assert world.message() == r"The commit step reports a malformed digest: '" + r"\x1b" * 64 + "'"


def test_an_output_with_such_a_name_keeps_it(world: World) -> None:
    uri = "s3://out/\u200fabc"
    world.apply(output={"uri": uri})
    world.settle()
    world.committing()
    world.committed(manifest_uri=f"{uri}/_dataprep/1/manifest.json\x1b")
    world.settle()

    assert world.status()["output"]["uri"] == uri
    assert world.status()["output"]["manifestUri"] == f"{uri}/_dataprep/1/manifest.json" + r"\u001b"
    assert world.cluster.objects[("configmaps", NAMESPACE, "mnist")]["data"]["DATAPREP_OUTPUT_URI"] == uri


def test_a_wish_with_such_a_text_is_granted_once(world: World) -> None:
    failed_plan(world)
    retry(world, HOSTILE)
    assert world.status()["attempt"] == 2
    world.later(60)
    assert world.status()["attempt"] == 2


@given(st.text(max_size=300))
def test_what_was_shown_once_is_shown_so_again(text: str) -> None:
    once = redaction.redact_status(DataPrepJobStatus(warnings=[text]))
    assert redaction.redact_status(once) == once


def test_the_text_of_an_event_is_shown_whoever_said_it() -> None:
    body = events.body(
        events.Note("Warning", Reason.NOT_HANDED_OVER, HOSTILE),
        key=Key(NAMESPACE, "a"),
        uid="u",
        attempt=1,
        count=1,
        first=times.now(),
        now=times.now(),
    )
    assert faults(list(texts(body))) == []


# --- logs ---------------------------------------------------------------------------------------------------------------------


@pytest.fixture
def root() -> Iterator[None]:
    logger = logging.getLogger()
    level, handlers = logger.level, list(logger.handlers)
    yield
    logger.setLevel(level)
    logger.handlers[:] = handlers


@pytest.mark.parametrize("form", ["json", "text"])
@pytest.mark.usefixtures("root")
def test_a_line_of_the_log_is_one_line_without_escapes_and_credentials(form: str, capsys: pytest.CaptureFixture[str]) -> None:
    command._set_up_logging(Settings(log_format=form))
    logging.getLogger("dataprep_operator").warning("%s\n2026-01-31 INFO forged", HOSTILE)
    try:
        raise ValueError(HOSTILE)
    except ValueError:
        logging.getLogger("dataprep_operator").exception("failed")

    said = capsys.readouterr().err
    assert faults([said]) == []
    first, *rest = said.splitlines()
    if form == "json":
        assert [json.loads(line)["level"] for line in (first, *rest)] == ["WARNING", "ERROR"]
        said = "".join(texts([json.loads(line) for line in (first, *rest)]))
        assert faults([said]) == []
    assert "forged" in first


@pytest.mark.usefixtures("root")
def test_a_defect_that_ends_the_operator_is_logged_so_too(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    async def serve(_: Settings) -> None:
        raise ValueError(HOSTILE)

    monkeypatch.setattr(command, "serve", serve)
    monkeypatch.setattr(sys, "argv", ["dataprep-operator"])
    assert command.main([]) == 1
    said = capsys.readouterr().err
    assert "ValueError" in said
    assert faults([said]) == []


def test_settings_that_are_wrong_are_told_so_too(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("DATAPREP_LISTEN_PORT", HOSTILE)
    assert command.main([]) == 2
    assert faults([capsys.readouterr().err]) == []


def test_a_schedule_whose_job_is_refused_says_so_without_them(world: World) -> None:
    spec = {"schedule": HOSTILE, "jobTemplate": {"spec": {}}}
    body = {"apiVersion": "dataprep.io/v1alpha1", "kind": "DataPrepCronJob", "metadata": {"name": "nightly"}, "spec": spec}
    world.cluster.add("dataprepcronjobs", NAMESPACE, body)
    asyncio.run(world.crons.reconcile(Key(NAMESPACE, "nightly", "DataPrepCronJob")))
    assert faults(written(world)) == []
    assert world.cluster.objects[("dataprepcronjobs", NAMESPACE, "nightly")]["status"]["conditions"]
