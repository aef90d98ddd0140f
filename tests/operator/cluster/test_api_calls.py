"""Tests of the request rate limit, of the errors that the API server's responses are converted to, and of status writes."""

import asyncio
import json
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from kubernetes.aio.client import Configuration

from dataprep_operator.cluster.cluster import DATAPREPJOBS, KubernetesCluster, _error
from dataprep_operator.cluster.ratelimit import TokenBucket
from dataprep_operator.errors import AlreadyExists, Conflict, NotFound, Refused, Unavailable


def test_a_burst_is_free_and_the_rest_waits_its_turn() -> None:
    now = [0.0]
    bucket = TokenBucket(rate=10, burst=3, clock=lambda: now[0])

    assert [bucket.reserve() for _ in range(5)] == pytest.approx([0, 0, 0, 0.1, 0.2])
    now[0] = 10
    assert bucket.reserve() == 0


ANSWERS = {
    "missing": (404, b'{"message": "not found"}', NotFound),
    "there already": (409, b'{"reason": "AlreadyExists", "message": "exists"}', AlreadyExists),
    "changed": (409, b'{"reason": "Conflict", "message": "modified"}', Conflict),
    "invalid": (422, b'{"reason": "Invalid", "message": "spec.x: bad"}', Refused),
    "forbidden": (403, b'{"message": "no"}', Refused),
    "overloaded": (429, b"", Unavailable),
    "broken": (500, b"<html>", Unavailable),
}


@pytest.mark.parametrize(("status", "content", "expected"), ANSWERS.values(), ids=ANSWERS.keys())
def test_the_api_servers_answers_become_our_errors(status: int, content: bytes, expected: type[Exception]) -> None:
    assert type(_error("GET", "/x", status, content)) is expected


# --- status writes ----------------------------------------------------------------------------------------------------------------


APPLY, REPLACE = "application/apply-patch+yaml", "application/json-patch+json"
NOT_TYPED = "failed to create manager for existing fields: failed to convert new object (n/a) to smd typed: .spec.workers.volumes: …"
STATUS = {"observedGeneration": 1, "phase": "Planning"}
Body = dict[str, Any]  # the API's JSON


def written(apply: tuple[int, Body]) -> tuple[Body, list[tuple[str, Any]]]:
    """Write a status through an API server that responds to an apply with this code and body. Return the result and the requests."""
    requests: list[tuple[str, Any]] = []

    async def answer(request: web.Request) -> web.Response:
        requests.append((request.content_type, json.loads(await request.read())))
        code, body = apply if request.content_type == APPLY else (200, {"metadata": {"resourceVersion": "9"}, "status": STATUS})
        return web.json_response(body, status=code)

    async def write() -> Body:
        application = web.Application()
        application.router.add_patch("/apis/dataprep.io/v1alpha1/namespaces/n/dataprepjobs/a/status", answer)
        async with TestServer(application) as server:
            cluster = KubernetesCluster.of(Configuration(host=str(server.make_url(""))), qps=100, burst=100)
            try:
                return await cluster.apply_status(DATAPREPJOBS, "n", "a", uid="u", resource_version="7", status=STATUS)
            finally:
                await cluster.close()

    return asyncio.run(write()), requests


def replacement(version: str) -> list[Body]:
    return [
        {"op": "replace", "path": "/metadata/resourceVersion", "value": version},
        {"op": "add", "path": "/status", "value": STATUS},
    ]


def test_a_status_is_applied() -> None:
    answer = {"metadata": {"resourceVersion": "8"}, "status": STATUS}
    result, [(content_type, body)] = written((200, answer))

    assert (result, content_type, body["status"]) == (answer, APPLY, STATUS)


def test_a_status_that_can_not_be_applied_is_replaced(caplog: pytest.LogCaptureFixture) -> None:
    result, requests = written((500, {"message": NOT_TYPED}))

    assert requests[1:] == [(REPLACE, replacement("7"))]
    assert result["metadata"]["resourceVersion"] == "9"
    assert "n/a: the status is replaced, because it can't be applied" in caplog.text


def test_what_an_apply_leaves_of_a_replaced_status_is_replaced() -> None:
    left = {"metadata": {"resourceVersion": "8"}, "status": STATUS | {"runId": "from the time of the replacement"}}
    _, requests = written((200, left))

    assert requests[1:] == [(REPLACE, replacement("8"))]


@pytest.mark.parametrize(("code", "error"), [(500, Unavailable), (409, Conflict), (422, Refused)])
def test_any_other_fault_of_an_apply_replaces_nothing(code: int, error: type[Exception]) -> None:
    with pytest.raises(error):
        written((code, {"message": "etcdserver: request timed out"}))
