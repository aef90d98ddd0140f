"""Tests of progress reports: the verification of their tokens, and the handling of their content. Tokens are signed with a real RSA key."""

import asyncio
import json
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import jwt
import pytest
from aiohttp.test_utils import TestClient, TestServer
from cryptography.hazmat.primitives.asymmetric import rsa
from kopf._cogs.clients.watching import Bookmark
from tests.builders.tokens import ISSUER, LABELS, OURS, Keys, a_cache, a_token, jwks

from dataprep_api.dataset.messages import MOST_STORES, PROGRESS_LIMIT, PROGRESS_PATH, TOKEN_AUDIENCE, ProgressReport
from dataprep_operator.errors import ReportRefused
from dataprep_operator.informer.cache import Cache, Kind
from dataprep_operator.informer.streams import Streams
from dataprep_operator.objects.finished_tasks import FinishedTasks
from dataprep_operator.objects.observed import Key
from dataprep_operator.server.endpoint import Endpoint
from dataprep_operator.server.probes import Health
from dataprep_operator.server.progress import POD_REPORTS_AT_ONCE, ProgressStore
from dataprep_operator.server.tokens import Verifier

FORGED = rsa.generate_private_key(public_exponent=65537, key_size=2048)


# --- tokens ---------------------------------------------------------------------------------------------------------------


def test_a_pods_token_names_the_pod() -> None:
    bearer = asyncio.run(Verifier(Keys().fetch).bearer(a_token()))

    assert (bearer.namespace, bearer.pod_name, bearer.pod_uid) == ("team-a", "worker-0", "pod-uid")


def test_who_comes_while_the_keys_are_being_fetched_waits_for_them() -> None:
    keys = Keys()

    async def slow(path: str) -> dict[str, Any]:
        for _ in range(3):
            await asyncio.sleep(0)
        return await keys.fetch(path)

    async def all_at_once() -> list[str]:
        verifier = Verifier(slow)
        return [bearer.pod_name for bearer in await asyncio.gather(*(verifier.bearer(a_token()) for _ in range(5)))]

    assert asyncio.run(all_at_once()) == ["worker-0"] * 5
    assert keys.fetched == 1


REFUSED = {
    "forged": lambda: a_token(key=FORGED),
    "expired": lambda: a_token(exp=datetime.now(UTC) - timedelta(minutes=5)),
    "without expiry": lambda: jwt.encode({"iss": ISSUER, "aud": TOKEN_AUDIENCE}, OURS, "RS256", {"kid": "k1"}),
    "wrong audience": lambda: a_token(aud=["https://kubernetes.default.svc"]),
    "wrong issuer": lambda: a_token(iss="https://evil"),
    "unknown key": lambda: a_token(kid="k9"),
    "no algorithm": lambda: jwt.encode({"iss": ISSUER, "aud": TOKEN_AUDIENCE}, "", algorithm="none", headers={"kid": "k1"}),
    "symmetric": lambda: a_token(key="x" * 64, algorithm="HS256"),
    "not bound to a pod": lambda: a_token(pod={"name": "worker-0"}),
    "no claims of kubernetes": lambda: jwt.encode(
        {"iss": ISSUER, "aud": TOKEN_AUDIENCE, "exp": 2**40, "kubernetes.io": "pod"}, OURS, "RS256", {"kid": "k1"}
    ),
    "garbage": lambda: "a.b.c",
}


@pytest.mark.parametrize("make", REFUSED.values(), ids=REFUSED.keys())
def test_a_token_that_is_not_a_pods_own_is_refused(make: Any) -> None:
    with pytest.raises(ReportRefused) as refused:
        asyncio.run(Verifier(Keys().fetch, issuer=ISSUER).bearer(make()))

    assert refused.value.status == 401


def test_rotated_keys_are_found_but_not_asked_for_all_the_time() -> None:
    keys, seconds = Keys(), [0.0]
    verifier = Verifier(keys.fetch, clock=lambda: seconds[0])

    async def lives() -> None:
        await verifier.bearer(a_token())
        for _ in range(50):
            with pytest.raises(ReportRefused):
                await verifier.bearer(a_token(kid="made-up"))
        assert keys.fetched == 1
        keys.document = jwks("k2", FORGED)
        seconds[0] = 61.0
        await verifier.bearer(a_token(kid="k2", key=FORGED))
        assert keys.fetched == 2

    asyncio.run(lives())


def test_unreadable_keys_are_the_servers_fault() -> None:
    with pytest.raises(ReportRefused) as refused:
        asyncio.run(Verifier(Keys(down=True).fetch).bearer(a_token()))

    assert refused.value.status == 503


# --- the endpoint ---------------------------------------------------------------------------------------------------------


@dataclass
class Answer:
    status: int
    text: str
    enqueue: list[Key]
    progress_store: ProgressStore


def ask(*, token: str | None = None, body: Any = None, leading: bool = True, path: str = PROGRESS_PATH, method: str = "POST") -> Answer:
    enqueue: list[Key] = []
    progress_store = ProgressStore()
    endpoint = Endpoint(
        cache=a_cache(),
        progress_store=progress_store,
        verifier=Verifier(Keys().fetch),
        health=Health(age_limit_seconds=180, leading=leading),
        enqueue=enqueue.append,
    )
    given = {"job": "mnist", "attempt": 1, "index": 2, "sequence": 1, "records": {"in": 10, "out": 10}}
    data = body if isinstance(body, bytes) else json.dumps(given | (body or {})).encode()

    async def talk() -> Answer:
        async with TestClient(TestServer(endpoint.application())) as client:
            headers = {"Authorization": f"Bearer {token if token is not None else a_token()}"}
            async with client.request(method, path, data=data if method == "POST" else None, headers=headers) as response:
                return Answer(response.status, await response.text(), enqueue, progress_store)

    return asyncio.run(talk())


def test_a_workers_report_is_taken() -> None:
    answer = ask()

    assert answer.status == 200
    assert json.loads(answer.text)["nextReportSeconds"] >= 0.2
    assert answer.enqueue == [Key("team-a", "mnist")]
    assert answer.progress_store.live("job-uid", finished=FinishedTasks(), attempt=1, now=datetime.now(UTC)).records.in_ == 10


def test_what_a_newer_converter_adds_to_a_report_is_passed_over() -> None:
    answer = ask(body={"aNewCount": 7, "records": {"in": 10, "out": 10, "anotherOne": 3}})

    assert answer.status == 200
    assert answer.progress_store.live("job-uid", finished=FinishedTasks(), attempt=1, now=datetime.now(UTC)).records.in_ == 10


def test_the_reply_has_the_pods_share_of_a_limit() -> None:
    answer = ask(body={"requests": {"0": {"sent": 5, "limit": 30}, "s3": {"sent": 5}}})

    assert json.loads(answer.text)["requestsPerSecond"] == {"0": 30.0}


def test_a_pod_of_a_release_that_counts_no_requests_gets_no_share() -> None:
    assert json.loads(ask().text)["requestsPerSecond"] == {}


def ask_for_the_plan(**body: Any) -> Answer:
    """Send a report from the plan step's pod."""
    return ask(token=a_token(pod={"name": "planner", "uid": "planner-uid"}), body={"index": 0, "shardsTotal": 8} | body)


def test_the_pod_of_the_plan_step_reports_the_work_of_a_small_job() -> None:
    answer = ask_for_the_plan()

    assert answer.status == 200
    now = datetime.now(UTC)
    planning = answer.progress_store.planning("job-uid", attempt=1, now=now)
    assert (planning.records.in_, planning.shards_total, planning.pod_uid) == (10, 8, "planner-uid")
    assert answer.progress_store.planning("job-uid", attempt=2, now=now).shards_total is None
    assert answer.progress_store.live("job-uid", finished=FinishedTasks(), attempt=1, now=now).records.in_ == 0, (
        "no worker has reported anything"
    )


def test_the_pod_of_the_plan_step_has_a_single_task() -> None:
    answer = ask_for_the_plan(index=1)

    assert (answer.status, answer.enqueue) == (400, [])
    assert "task 1 does not exist; the job has 1" in answer.text


def ask_for_a_slice(**body: Any) -> Answer:
    """Send a report from a pod of the shuffle step."""
    return ask(token=a_token(pod={"name": "divider", "uid": "divider-uid"}), body=body)


def test_a_pod_of_a_shuffle_gets_its_share_and_its_records_are_not_converted_ones() -> None:
    answer = ask_for_a_slice(requests={"s3": {"sent": 5, "limit": 30}})

    assert json.loads(answer.text)["requestsPerSecond"] == {"s3": 30.0}
    assert answer.progress_store.live("job-uid", finished=FinishedTasks(), attempt=1, now=datetime.now(UTC)).records.in_ == 0


def test_a_shuffle_has_its_own_number_of_tasks() -> None:
    answer = ask_for_a_slice(index=3)

    assert (answer.status, answer.enqueue) == (400, [])
    assert "task 3 does not exist; the job has 3" in answer.text


REFUSALS = {
    "no token": ({"token": ""}, 401),
    "forged": ({"token": a_token(key=FORGED)}, 401),
    "huge token": ({"token": "x" * 9000}, 400),
    "another namespace": ({"token": a_token(namespace="team-b")}, 403),
    "another pod's uid": ({"token": a_token(pod={"name": "worker-0", "uid": "earlier"})}, 403),
    "a pod that is not ours": ({"token": a_token(pod={"name": "nobody", "uid": "x"})}, 403),
    "a pod with our labels and another owner": ({"token": a_token(pod={"name": "stranger", "uid": "stranger-uid"})}, 403),
    "a pod of a scan": ({"token": a_token(pod={"name": "scanner", "uid": "scanner-uid"})}, 403),
    "another job": ({"body": {"job": "other"}}, 403),
    "another attempt": ({"body": {"attempt": 2}}, 403),
    "a task that is not there": ({"body": {"index": 4}}, 400),
    "a negative number": ({"body": {"records": {"in": -1}}}, 400),
    "a number that no status can contain": ({"body": {"records": {"in": 10**400}}}, 400),
    "requests that no float can contain": ({"body": {"requests": {"0": {"sent": 10**400}}}}, 400),
    "a limit of nothing": ({"body": {"requests": {"0": {"sent": 1, "limit": 0}}}}, 400),
    "too many stores": ({"body": {"requests": {str(number): {} for number in range(MOST_STORES + 1)}}}, 400),
    "not JSON": ({"body": b"<html>"}, 400),
    "too long": ({"body": b" " * (PROGRESS_LIMIT + 1)}, 413),
    "a standby": ({"leading": False}, 503),
}


@pytest.mark.parametrize(("question", "status"), REFUSALS.values(), ids=REFUSALS.keys())
def test_what_is_not_a_workers_report_is_refused_and_changes_nothing(question: dict[str, Any], status: int) -> None:
    answer = ask(**question)

    assert answer.status == status
    assert answer.enqueue == []


def test_a_pod_that_reports_too_often_is_told_so_and_no_other_suffers() -> None:
    enqueue: list[Key] = []
    cache, progress_store = a_cache(), ProgressStore()
    second = {"kind": "Job", "name": "mnist-convert-1", "uid": "child-uid", "controller": True}
    pod = {"name": "worker-1", "namespace": "team-a", "uid": "second-uid", "labels": LABELS, "ownerReferences": [second]}
    cache.put(Kind.PODS, {"metadata": pod, "status": {"phase": "Running"}})
    health = Health(age_limit_seconds=180, leading=True)
    endpoint = Endpoint(cache=cache, progress_store=progress_store, verifier=Verifier(Keys().fetch), health=health, enqueue=enqueue.append)
    report = {"job": "mnist", "attempt": 1, "index": 2, "sequence": 1}

    async def talk(client: TestClient[Any, Any], token: str) -> tuple[int, str]:
        async with client.post(PROGRESS_PATH, json=report, headers={"Authorization": f"Bearer {token}"}) as response:
            return response.status, await response.text()

    async def flood() -> None:
        async with TestClient(TestServer(endpoint.application())) as client:
            token = a_token()
            answers = [await talk(client, token) for _ in range(POD_REPORTS_AT_ONCE + 30)]
            statuses = [status for status, _ in answers]
            assert statuses[:POD_REPORTS_AT_ONCE] == [200] * POD_REPORTS_AT_ONCE
            assert 429 in statuses
            assert "worker-0 reports too often" in next(text for status, text in answers if status == 429)
            assert len(enqueue) == statuses.count(200)
            assert (await talk(client, a_token(pod={"name": "worker-1", "uid": "second-uid"})))[0] == 200

    asyncio.run(flood())


def test_a_report_that_is_sent_again_moves_nothing_back() -> None:
    progress_store = ProgressStore()
    for sequence, records in ((1, 10), (2, 20), (1, 10), (2, 5)):
        report = ProgressReport.model_validate({"job": "mnist", "attempt": 1, "index": 2, "sequence": sequence, "records": {"in": records}})
        progress_store.record(report, job_uid="job-uid", pod_uid="pod-uid", now=datetime.now(UTC))

    assert progress_store.live("job-uid", finished=FinishedTasks(), attempt=1, now=datetime.now(UTC)).records.in_ == 20


def test_a_standby_says_why() -> None:
    assert "not leader" in ask(leading=False).text


def test_a_replica_is_alive_and_not_ready_before_its_watches_have_listed() -> None:
    for leading in (True, False):
        assert ask(leading=leading, path="/healthz", method="GET").status == 200
        assert ask(leading=leading, path="/readyz", method="GET").status == 503


def test_a_standby_that_has_listed_is_ready_and_one_with_a_dead_watch_is_restarted() -> None:
    now = [0.0]
    heard = Streams(expected=frozenset({(Kind.PODS, None)}), cache=Cache(), enqueue=lambda _: None, clock=lambda: now[0])
    standby = Health(age_limit_seconds=180, leading=False, streams=heard)
    assert standby.not_ready() == "not listed yet: pods in all namespaces"

    heard.observe((Kind.PODS, None), Bookmark.LISTED)
    assert (standby.not_ready(), standby.fault()) == (None, None)

    now[0] = 181.0
    assert standby.fault() == "a watch has received nothing for 181 s"


def test_a_standby_counts_no_jobs() -> None:
    assert 'dataprep_jobs{phase="Running"} 0.0' in ask(leading=False, path="/metrics", method="GET").text


def test_metrics_count_the_jobs_by_phase() -> None:
    assert 'dataprep_jobs{phase="Running"} 1.0' in ask(path="/metrics", method="GET").text


def test_metrics_have_the_rate_of_the_jobs_that_run() -> None:
    assert "dataprep_records_per_second 0.0" in ask(path="/metrics", method="GET").text
    cache = a_cache()
    for number, (phase, rate) in enumerate((("Running", 120.5), ("Running", 30), ("Succeeded", 900))):
        metadata = {"name": f"job-{number}", "namespace": "team-a", "uid": f"uid-{number}", "creationTimestamp": "2026-01-01T00:00:00Z"}
        cache.put(Kind.DATAPREPJOBS, {"metadata": metadata, "spec": {}, "status": {"phase": phase, "progress": {"recordsPerSecond": rate}}})
    assert cache.records_per_second() == 150.5
