"""Tests of `/metrics` with authentication: the API server identifies the token's account and decides whether the account may read the
metrics."""

import asyncio
from typing import Any

import pytest
from aiohttp.test_utils import TestClient, TestServer
from tests.builders.tokens import Keys, a_cache

from dataprep_operator.cluster import cluster as cluster_module
from dataprep_operator.cluster.cluster import ACCESS_REVIEWS, DATAPREPJOBS, LEASES, TOKEN_REVIEWS, Resource
from dataprep_operator.errors import Refused, ReportRefused, Unavailable
from dataprep_operator.server.endpoint import LONGEST_TOKEN, Endpoint
from dataprep_operator.server.probes import Health
from dataprep_operator.server.progress import ProgressStore
from dataprep_operator.server.reviews import KEPT_SECONDS, REVIEWS_A_SECOND, REVIEWS_AT_ONCE, Reviewer
from dataprep_operator.server.tokens import Verifier

Body = dict[str, Any]  # the API's JSON
PROMETHEUS = {"username": "system:serviceaccount:monitoring:prometheus", "uid": "u", "groups": ["g"], "extra": {"k": ["v"]}}


class Reviews:
    """An API server that accepts a single token, and whose `allowed` decides whether the token's account may read the metrics."""

    def __init__(self) -> None:
        self.asked: list[Body] = []
        self.allowed: Any = True  # Any: the value can have any type
        self.fault: Exception | None = None

    async def create(self, resource: Resource, namespace: str, body: Body) -> Body:
        assert namespace == ""
        self.asked.append(body)
        if self.fault is not None:
            raise self.fault
        if resource == TOKEN_REVIEWS:
            is_good = body["spec"]["token"] == "good"
            return {"status": {"authenticated": is_good, **({"user": PROMETHEUS} if is_good else {"error": "invalid"})}}
        assert resource == ACCESS_REVIEWS
        return {"status": {"allowed": self.allowed}}


def get(reviews: Reviews | None, *headers: dict[str, str], path: str = "/metrics") -> list[tuple[int, str]]:
    """Send requests with these headers one after the other, and return the responses."""
    cluster: Any = reviews
    endpoint = Endpoint(
        cache=a_cache(),
        progress_store=ProgressStore(),
        verifier=Verifier(Keys().fetch),
        health=Health(age_limit_seconds=180),
        enqueue=lambda _: None,
        reviewer=Reviewer(cluster) if reviews is not None else None,
    )

    async def talk() -> list[tuple[int, str]]:
        answers = []
        async with TestClient(TestServer(endpoint.application())) as client:
            for each in headers:
                async with client.get(path, headers=each) as response:
                    answers.append((response.status, await response.text()))
        return answers

    return asyncio.run(talk())


GOOD = {"Authorization": "Bearer good"}


def test_by_default_everybody_reads_them() -> None:
    assert [status for status, _ in get(None, {}, GOOD)] == [200, 200]


def test_who_may_read_them_does_and_is_asked_for_once() -> None:
    reviews = Reviews()
    answers = get(reviews, GOOD, GOOD, GOOD)

    assert [status for status, _ in answers] == [200] * 3
    assert "dataprep_jobs" in answers[0][1]
    assert [body["kind"] for body in reviews.asked] == ["TokenReview", "SubjectAccessReview"]
    assert reviews.asked[0] == {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": "good"}}
    assert reviews.asked[1]["spec"] == {
        "user": PROMETHEUS["username"],
        "uid": "u",
        "groups": ["g"],
        "extra": {"k": ["v"]},
        "nonResourceAttributes": {"path": "/metrics", "verb": "get"},
    }


@pytest.mark.parametrize(
    "headers",
    [{}, {"Authorization": "Bearer "}, {"Authorization": "Basic good"}, {"Authorization": f"Bearer {'x' * (LONGEST_TOKEN - 1000)}"}],
    ids=["none", "empty", "another scheme", "unknown"],
)
def test_without_a_good_token_nobody_reads_them(headers: dict[str, str]) -> None:
    ((status, text),) = get(Reviews(), headers)
    assert status == 401
    assert "dataprep_" not in text


def test_who_may_not_read_them_is_told_so_by_name() -> None:
    reviews = Reviews()
    reviews.allowed = "yes"
    ((status, text),) = get(reviews, GOOD)
    assert (status, text) == (403, "system:serviceaccount:monitoring:prometheus may not get the nonResourceURL /metrics\n")


@pytest.mark.parametrize("fault", [Refused("may not create tokenreviews"), Unavailable("no route")], ids=["no right", "not reached"])
def test_an_api_server_that_can_not_be_asked_is_not_the_readers_fault(fault: Exception) -> None:
    reviews = Reviews()
    reviews.fault = fault
    ((status, text),) = get(reviews, GOOD)
    assert status == 503
    assert str(fault) in text


def test_probes_need_no_token() -> None:
    reviews = Reviews()
    assert get(reviews, {}, path="/healthz")[0][0] == 200
    assert reviews.asked == []


def refusal(reviewer: Reviewer, token: str) -> int:
    """Return the HTTP status with which a token is refused, or 200 if it is accepted."""
    try:
        asyncio.run(reviewer.check(token))
    except ReportRefused as exc:
        return exc.status
    return 200


def test_an_answer_holds_for_a_while() -> None:
    reviews, now = Reviews(), [0.0]
    cluster: Any = reviews
    reviewer = Reviewer(cluster, clock=lambda: now[0])
    assert refusal(reviewer, "good") == 200
    reviews.allowed = False
    assert refusal(reviewer, "good") == 200
    now[0] = KEPT_SECONDS
    assert refusal(reviewer, "good") == refusal(reviewer, "good") == 403
    assert len(reviews.asked) == 4


def test_made_up_tokens_keep_neither_the_api_server_busy_nor_a_known_one_out() -> None:
    reviews, now = Reviews(), [0.0]
    cluster: Any = reviews
    reviewer = Reviewer(cluster, clock=lambda: now[0])
    assert refusal(reviewer, "good") == 200
    statuses = [refusal(reviewer, f"made up {number}") for number in range(200)]

    assert statuses == [401] * (REVIEWS_AT_ONCE - 1) + [429] * (201 - REVIEWS_AT_ONCE)
    assert refusal(reviewer, "good") == 200
    for number in range(600):
        now[0] += 1 / REVIEWS_A_SECOND
        refusal(reviewer, f"more {number}")
    assert len(reviewer._answers) <= 256


def test_a_standby_may_ask_too() -> None:
    for resource in (LEASES, TOKEN_REVIEWS, ACCESS_REVIEWS):
        assert not cluster_module._needs_leadership("POST", resource.path(""))
    assert cluster_module._needs_leadership("POST", DATAPREPJOBS.path("n"))


def test_a_review_has_no_namespace() -> None:
    assert TOKEN_REVIEWS.path("") == "/apis/authentication.k8s.io/v1/tokenreviews"
    assert ACCESS_REVIEWS.path("") == "/apis/authorization.k8s.io/v1/subjectaccessreviews"
