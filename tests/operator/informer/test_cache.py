"""The cache of watched objects."""

import json
import tracemalloc

from tests.builders.watched import child_object, job_object

from dataprep_api import names
from dataprep_operator.informer.cache import Cache, Kind
from dataprep_operator.objects.observed import Key


def test_a_job_is_new_until_it_has_a_phase() -> None:
    cache = Cache()
    cache.put(Kind.DATAPREPJOBS, job_object("new", uid="uid-new"))
    cache.put(Kind.DATAPREPJOBS, job_object("runs", uid="uid-runs", status={"phase": "Running"}))
    cache.put(Kind.DATAPREPCRONJOBS, {"metadata": {"namespace": "default", "name": "daily", "uid": "uid-daily", "resourceVersion": "1"}})
    keys = cache.keys()
    assert {key.name: cache.is_new(key) for key in keys} == {"new": True, "runs": False, "daily": False}


def test_an_older_version_does_not_replace_a_newer_one() -> None:
    cache = Cache()
    cache.put(Kind.DATAPREPJOBS, job_object(version="10", status={"phase": "Running"}))
    cache.put(Kind.DATAPREPJOBS, job_object(version="9"))

    assert cache.job(Key("n", "a")) == job_object(version="10", status={"phase": "Running"})


def test_a_job_is_kept_in_little_more_room_than_its_json_takes() -> None:
    cache, jobs = Cache(), 200
    features = [{"name": f"feature-{number}", "from": [f"column-{number}"], "dtype": "float32"} for number in range(40)]
    size = len(json.dumps({**job_object(), "spec": {"features": features}}, separators=(",", ":")))
    tracemalloc.start()
    try:
        for number in range(jobs):
            text = json.dumps({**job_object(f"job-{number:03}", uid=f"uid-{number:03}"), "spec": {"features": features}})
            cache.put(Kind.DATAPREPJOBS, json.loads(text))
        took = tracemalloc.get_traced_memory()[0] / jobs
    finally:
        tracemalloc.stop()
    assert size < took < size + 2048


def test_a_successor_of_the_same_name_replaces_its_predecessor() -> None:
    cache = Cache()
    cache.put(Kind.DATAPREPJOBS, job_object())
    cache.put(Kind.DATAPREPJOBS, job_object(uid="uid-b", version="7"))
    cache.drop(Kind.DATAPREPJOBS, job_object())

    found = cache.job(Key("n", "a"))
    assert found is not None
    assert found["metadata"]["uid"] == "uid-b"


def test_what_a_listing_lacks_was_deleted_meanwhile() -> None:
    cache = Cache()
    cache.put(Kind.DATAPREPJOBS, job_object())
    for uid in ("job-1", "job-2"):
        cache.put(Kind.JOBS, child_object(uid))
    known = cache.uids(Kind.JOBS, namespace=None)
    cache.put(Kind.JOBS, child_object("job-3"))

    concerned = cache.prune(Kind.JOBS, namespace=None, listed_uids=["job-1"], known_uids=known)

    assert concerned == [Key("n", "a")]
    assert {child.uid for child in cache.children_of("n", "uid-a")} == {"job-1", "job-3"}


def test_pods_with_our_label_and_another_owner_are_nobodys() -> None:
    cache = Cache()
    cache.put(Kind.DATAPREPJOBS, job_object())
    cache.put(Kind.JOBS, child_object())
    pod = {"metadata": {"name": "p", "namespace": "n", "uid": "p", "labels": {names.LABEL_JOB_UID: "uid-a"}}, "status": {}}
    cache.put(Kind.PODS, pod)

    assert cache.pods_of("n", "job-1") == ()
