"""Tests of the cache and the watches, which trigger reconciles of DataPrepCronJobs, and of the check of CRDs at startup."""

import asyncio
from typing import Any

import pytest

from dataprep_api import CRON_KIND
from dataprep_operator.cluster.cluster import DATAPREPCRONJOBS, Body, KubernetesCluster
from dataprep_operator.errors import NotFound, NotServed
from dataprep_operator.informer import handlers
from dataprep_operator.informer.cache import Cache, Kind
from dataprep_operator.informer.streams import Streams
from dataprep_operator.objects.observed import Key

CRON = Key("n", "nightly", CRON_KIND)
OWNER = {"kind": CRON_KIND, "name": "nightly", "uid": "uid-cron", "controller": True}


def a_cron(uid: str = "uid-cron") -> Body:
    return {"metadata": {"name": "nightly", "namespace": "n", "uid": uid, "resourceVersion": "1"}, "spec": {}}


def a_job(name: str = "nightly-1") -> Body:
    metadata = {"name": name, "namespace": "n", "uid": f"uid-{name}", "resourceVersion": "2", "ownerReferences": [OWNER]}
    return {"metadata": metadata | {"creationTimestamp": "2026-01-31T12:00:00Z"}, "spec": {}}


def test_a_job_and_a_cron_job_of_one_name_are_two() -> None:
    cache = Cache()
    job = a_job("nightly")

    cache.put(Kind.DATAPREPCRONJOBS, a_cron())
    cache.put(Kind.DATAPREPJOBS, job)
    assert cache.key_of(Kind.DATAPREPCRONJOBS, a_cron()) == CRON
    assert cache.key_of(Kind.DATAPREPJOBS, job) == Key("n", "nightly") != CRON
    assert sorted(cache.keys()) == [CRON, Key("n", "nightly")]
    assert cache.uids(Kind.DATAPREPJOBS, namespace=None) == ["uid-nightly"]
    assert cache.uids(Kind.DATAPREPCRONJOBS, namespace="n") == ["uid-cron"]
    assert cache.drop(Kind.DATAPREPCRONJOBS, a_cron()) == CRON
    assert (cache.cron(CRON), cache.job(Key("n", "nightly"))) == (None, job)


def test_a_successor_of_the_same_name_has_none_of_the_jobs() -> None:
    cache = Cache()
    cache.put(Kind.DATAPREPCRONJOBS, a_cron())
    cache.put(Kind.DATAPREPJOBS, a_job())
    cache.put(Kind.DATAPREPCRONJOBS, a_cron("uid-next"))
    cache.drop(Kind.DATAPREPCRONJOBS, a_cron())

    assert cache.cron(CRON) == a_cron("uid-next")
    assert (len(cache.jobs_of_cron("n", "uid-cron")), cache.jobs_of_cron("n", "uid-next")) == (1, [])
    cache.drop(Kind.DATAPREPJOBS, a_job())
    assert cache.jobs_of_cron("n", "uid-cron") == []


def test_a_job_that_went_unseen_concerns_its_cron_job() -> None:
    cache = Cache()
    cache.put(Kind.DATAPREPCRONJOBS, a_cron())
    cache.put(Kind.DATAPREPJOBS, a_job())

    assert cache.prune(Kind.DATAPREPJOBS, namespace=None, listed_uids=[], known_uids=["uid-nightly-1"]) == [Key("n", "nightly-1"), CRON]
    assert cache.jobs_of_cron("n", "uid-cron") == []


def test_an_event_of_a_job_has_its_cron_job_and_who_waits_looked_at() -> None:
    cache = Cache()
    waiting = {**a_job("after"), "spec": {"runAfter": ["nightly-1"]}}
    waiting["metadata"] = {**waiting["metadata"], "ownerReferences": []}
    cache.put(Kind.DATAPREPJOBS, waiting)
    concerned: list[Key] = []
    streams = Streams(expected=frozenset(), cache=cache, enqueue=concerned.append)

    for kind in ("MODIFIED", "DELETED"):
        concerned.clear()
        event = {"type": kind, "object": a_job()}
        handlers._handle(Kind.DATAPREPJOBS, event, cache=cache, streams=streams, enqueue=lambda key, _: concerned.append(key))
        assert concerned == [Key("n", "nightly-1"), Key("n", "after"), CRON]


def test_kopf_watches_four_kinds() -> None:
    streams = Streams(expected=frozenset(), cache=Cache(), enqueue=lambda _: None)
    registry = handlers.registry(cache=Cache(), streams=streams, enqueue=lambda *_: None)

    assert {selector.any_name for selector in registry._watching.get_all_selectors()} >= set(Kind)


class Served(KubernetesCluster):
    """An API server that serves some kinds."""

    def __init__(self, *plurals: str) -> None:
        self.plurals = plurals

    async def _request(self, *_: Any, **__: Any) -> Body:
        if not self.plurals:
            raise NotFound("no such group")
        return {"resources": [{"name": each} for each in self.plurals]}


@pytest.mark.parametrize(
    ("served", "missing"),
    [
        ((), "the CRD dataprepjobs.dataprep.io and the CRD dataprepcronjobs.dataprep.io and the CRD dataprepprofiles.dataprep.io"),
        (("dataprepjobs", "dataprepjobs/status", "dataprepcronjobs"), "the CRD dataprepprofiles.dataprep.io"),
    ],
    ids=["none", "an older release's"],
)
def test_a_missing_crd_is_named(served: tuple[str, ...], missing: str) -> None:
    with pytest.raises(NotServed, match=f"^Not installed: {missing}. An administrator must install them once: kubectl apply"):
        asyncio.run(Served(*served).check_served())


def test_with_all_crds_the_start_goes_on() -> None:
    asyncio.run(Served("dataprepjobs", "dataprepcronjobs", "dataprepprofiles").check_served())


def test_a_cron_job_s_status_has_its_own_path() -> None:
    assert DATAPREPCRONJOBS.path("n", "a", subresource="status") == "/apis/dataprep.io/v1alpha1/namespaces/n/dataprepcronjobs/a/status"
