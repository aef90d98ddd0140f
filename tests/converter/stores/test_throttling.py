"""Jobs that use a store with a request limit: a real S3 server behind a proxy that refuses more than 50 requests per second.

The pods are processes of `dataprep work`, which report to the operator's real progress endpoint.
"""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pyarrow as pa
import pytest
from tests.builders.progress_server import JOB, progress_server
from tests.builders.specs import parse_job
from tests.converter.stores import small_jobs
from tests.converter.stores.places import Place, azure, gcs, oss, s3
from tests.converter.stores.site import serving

from dataprep_api.dataset.messages import PlanResult
from dataprep_api.resources.job import DataPrepJob
from dataprep_converter.inputs.access import Access
from dataprep_converter.inputs.store_settings import settings_for
from dataprep_converter.steps.plan_step import run_plan_step
from dataprep_converter.stores import Store
from storeservers import S3Server
from storeservers.faulty import Fault, HttpProxy, Kind, ThrottlingProxy

pytestmark = pytest.mark.store

ALLOWED = 50
"""The number of requests per second."""
PODS = 3
SETTLED_SECONDS = 10.0


@pytest.fixture
def place(request: pytest.FixtureRequest, s3_server: S3Server, monkeypatch: pytest.MonkeyPatch) -> Place:
    """A folder on the server. The pods find the keys in the environment, because they have no Secret."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", s3_server.access_key)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", s3_server.secret_key)
    return s3(request)


def fill(place: Place, files: int) -> None:
    store = place.store()
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(lambda number: store.put(place.at(f"in/{number:05d}.txt"), text_of(number)), range(files)))


def a_job(place: Place, endpoint: str, **store: Any) -> DataPrepJob:
    return parse_job(
        {
            "source": {"wholeFile": {"uris": [place.at("in")]}},
            "output": {"uri": place.at("out"), "format": "arrow", "shards": {"count": PODS}},
            "workers": {"parallelism": PODS},
            "stores": [{"uriPrefix": "s3://", "endpoint": endpoint, "region": place.settings.region, **store}],
        },
        name=JOB,
    )


def run_pods(job: DataPrepJob, planned: PlanResult, folder: Path) -> None:
    """Run all tasks at the same time, each in its own process."""
    file = folder / "job.json"
    file.write_text(json.dumps(job.model_dump(mode="json", by_alias=True, exclude_unset=True)))
    with progress_server(PODS) as (address, tokens):
        pods = [a_pod(file, planned, number, address=address, token=token) for number, token in enumerate(tokens)]
        said = [pod.communicate(timeout=120)[1] for pod in pods]
    assert [pod.returncode for pod in pods] == [0] * PODS, said


def a_pod(file: Path, planned: PlanResult, number: int, *, address: str, token: str) -> subprocess.Popen[str]:
    token_file = file.with_name(f"token-{number}")
    token_file.write_text(token)
    return subprocess.Popen(
        [
            *(sys.executable, "-m", "dataprep_converter", "work", str(file)),
            *("--run", planned.run_id, "--plan-sha256", planned.plan_sha256, "--index", str(number)),
        ],
        env={
            **os.environ,
            "DATAPREP_STATUS_URL": address,
            "DATAPREP_STATUS_TOKEN_FILE": str(token_file),
            "DATAPREP_JOB_NAME": JOB,
            "DATAPREP_ATTEMPT": "1",
            "OMP_NUM_THREADS": "1",
        },
        stderr=subprocess.PIPE,
        text=True,
    )


def assert_whole(place: Place, *, files: int) -> None:
    """Check that the data set is finished and has the contents of all files."""
    shards = small_jobs.whole(place, "out").visible
    contents = [each.as_py() for name in sorted(shards) for each in pa.ipc.open_file(shards[name]).read_all()["content"]]
    assert contents == [text_of(number) for number in range(files)]


def text_of(number: int) -> bytes:
    return f"text {number}".encode()


def refused_after(answers: Sequence[tuple[float, bool]], seconds: float) -> float:
    """Return the fraction of refused requests, not counting the requests in the first seconds."""
    later = [is_refused for at, is_refused in answers if at >= answers[0][0] + seconds]
    assert len(later) > ALLOWED, f"the job was too short: {len(later)} requests"
    return sum(later) / len(later)


def test_pods_share_what_the_store_allows(s3_server: S3Server, place: Place, tmp_path: Path) -> None:
    files = 420
    fill(place, files)
    with ThrottlingProxy(s3_server.port, per_second=ALLOWED) as proxy:
        job = a_job(place, proxy.endpoint)
        planned = run_plan_step(job, Access([replace(place.settings, endpoint=proxy.endpoint)])).result
        proxy.answers.clear()
        run_pods(job, planned, tmp_path)
        answers = list(proxy.answers)

    access = Access([place.settings])
    small_jobs.commit(job, access, run_plan_step(job, access))
    assert_whole(place, files=files)
    assert refused_after(answers, SETTLED_SECONDS) <= 0.05


def test_the_limit_of_the_spec_holds(s3_server: S3Server, place: Place) -> None:
    files, limit = 60, 20
    fill(place, files)
    with ThrottlingProxy(s3_server.port, per_second=ALLOWED) as proxy:
        job = a_job(place, proxy.endpoint, requestsPerSecond=limit)
        small_jobs.live(job, Access(settings_for(job.spec.stores, None)))
        times = [at for at, _ in proxy.answers]
        refused = sum(is_refused for _, is_refused in proxy.answers)

    assert_whole(place, files=files)
    assert refused == 0
    assert len(times) > 2 * files
    assert max(sum(start <= at < start + 2 for at in times) for start in times) <= 2 * limit + 2


OBJECT_STORES = {"s3": (s3, "s3_server"), "oss": (oss, "oss_fake"), "gcs": (gcs, "gcs_fake"), "azure": (azure, "azure_server")}


@pytest.mark.parametrize("name", OBJECT_STORES)
def test_each_request_of_an_object_store_is_counted(request: pytest.FixtureRequest, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    make, server = OBJECT_STORES[name]
    small_jobs.least_parts(monkeypatch)
    place = make(request)
    with HttpProxy(request.getfixturevalue(server).port, expired="") as proxy:
        path = urlsplit(place.settings.endpoint or "").path
        access = Access([replace(place.settings, endpoint=f"{proxy.endpoint}{path}", entry="0")])
        store = access.store(place.root)
        for call in every_request(store, place):
            proxy.arm([Fault(1, Kind.BUSY)])
            before = access.budgets["0"].counts
            call()
            counts = access.budgets["0"].counts
            assert (counts.sent - before.sent, counts.refused - before.refused) == (proxy.count, 1)


def every_request(store: Store, place: Place) -> Iterator[Callable[[], object]]:
    """Yield calls that together send every kind of request."""
    uri, large = place.at("small"), place.at("large")

    def upload() -> None:
        written = store.create(large)
        written.write(bytes(12 << 20))
        written.commit(replace=True)

    yield lambda: store.put(uri, b"0123456789")
    yield upload
    yield lambda: store.stat(uri)
    yield lambda: store.get(uri)
    yield lambda: list(store.list(place.root))
    opened = store.open(large)
    yield lambda: opened.read_at(3, 4)
    yield lambda: list(opened.stream())
    if place.sweeps:
        yield lambda: store.sweep(place.root)
    yield lambda: store.delete(uri)


def test_each_request_to_the_web_is_counted() -> None:
    with serving({"/file": b"0123456789"}) as site, HttpProxy(site.port, expired="") as proxy:
        access = Access()
        opened = access.store(proxy.endpoint).open(f"{proxy.endpoint}/file")
        proxy.arm([Fault(1, Kind.TOO_MANY)])
        before = access.budgets["http"].counts.sent
        assert opened.read_at(2, 3) == b"234"
        counts = access.budgets["http"].counts

    assert (counts.sent - before, counts.refused) == (proxy.count, 1)
