"""Tests of the rate limit of requests, and of the translation of the API server's answers to errors."""

import pytest

from dataprep_operator.cluster.cluster import _error
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
