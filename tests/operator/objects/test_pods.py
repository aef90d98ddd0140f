"""Tests of the reasons given when a pod has failed or can't start."""

from dataclasses import replace

import pytest

from dataprep_api import names
from dataprep_api.dataset import messages
from dataprep_api.dataset.messages import FailureResult
from dataprep_api.reasons import Reason
from dataprep_operator.objects import pods, times


def a_failed_pod(exit_code: int, message: str = "", reason: str = "Error") -> pods.Pod:
    state = {"terminated": {"exitCode": exit_code, "reason": reason, "message": message, "finishedAt": "2026-01-31T12:00:00Z"}}
    status = {"phase": "Failed", "containerStatuses": [{"name": "dataprep", "state": state}]}
    return pods.read({"metadata": {"name": "p", "namespace": "n", "uid": "u", "labels": {names.LABEL_STEP: "convert"}}, "status": status})


TOLD = messages.dump(FailureResult(reason=Reason.STORE_FULL, message="no space on /x", exit_code=4, index=3, shard="train-1"))


DEATHS = {
    "its own words": (a_failed_pod(4, TOLD), Reason.STORE_FULL, "no space on /x"),
    "bad spec without words": (a_failed_pod(2, "unknown field x"), Reason.INVALID_SPEC, "unknown field x"),
    "store without words": (a_failed_pod(4), Reason.STORE_UNREACHABLE, "exit code 4"),
    "out of memory": (a_failed_pod(137, reason="OOMKilled"), Reason.OUT_OF_MEMORY, "resources.limits.memory"),
    "killed": (a_failed_pod(137), Reason.BACKOFF_LIMIT_EXCEEDED, "was killed"),
    "crashed": (a_failed_pod(1, "Traceback\nKeyError: 7"), Reason.INTERNAL_ERROR, "KeyError: 7"),
    "our own defect": (a_failed_pod(70), Reason.INTERNAL_ERROR, "exit code 70"),
    "somebody else's message": (a_failed_pod(5, '{"kind": "plan"}'), Reason.NOT_PERMITTED, "exit code 5"),
}


@pytest.mark.parametrize(("pod", "reason", "words"), DEATHS.values(), ids=DEATHS.keys())
def test_why_a_pod_failed(pod: pods.Pod, reason: Reason, words: str) -> None:
    told = pod.failure

    assert told is not None
    assert told.reason == reason
    assert words in told.message


def test_a_pod_that_was_told_to_stop_has_not_failed() -> None:
    assert replace(a_failed_pod(143), disrupted_at=times.now()).failure is None
    assert replace(a_failed_pod(143), deletion_due=times.now()).failure is None


EVENTS = {
    "a missing Secret": ([{"reason": "FailedMount", "message": 'secret "x" not found'}], True),
    "a missing key": ([{"reason": "FailedMount", "message": "references non-existent secret key: a"}], True),
    "a slow disk": ([{"reason": "FailedMount", "message": "timed out waiting for the condition"}], False),
    "something else": ([{"reason": "Pulled", "message": "image not found in cache"}], False),
    "nothing": ([], False),
}


@pytest.mark.parametrize(("told", "missing"), EVENTS.values(), ids=EVENTS.keys())
def test_only_what_is_missing_for_good_is_a_missing_mount(told: list[dict[str, str]], missing: bool) -> None:
    assert (pods.missing_mount(told) is not None) == missing
