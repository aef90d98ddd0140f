"""Tests each kind of fault in each kind of request to OSS.

Requests that can safely be repeated are repeated, and an expired token is reported.
"""

import gc
import tracemalloc
from collections.abc import Callable
from dataclasses import replace

import pytest
from tests.converter.stores.places import Place, oss

from dataprep_converter.core.errors import BadCredentials
from dataprep_converter.stores import Store
from storeservers import FakeOss
from storeservers.faulty import Fault, HttpProxy, Kind
from storeservers.oss import Fault as InjectedFault

pytestmark = pytest.mark.store

CALLS: dict[str, Callable[[Store, Place], object]] = {
    "put": lambda store, place: store.put(place.at("put"), b"content"),
    "exclusive put": lambda store, place: store.put(place.at("exclusive"), b"content", replace=False),
    "get": lambda store, place: store.get(place.at("there")),
    "stat": lambda store, place: store.stat(place.at("there")),
    "list": lambda store, place: [*store.list(place.root)],
    "delete": lambda store, place: store.delete(place.at("put")),
}


@pytest.mark.parametrize("kind", Kind, ids=str)
def test_one_fault_is_overcome_by_every_call(
    kind: Kind, request: pytest.FixtureRequest, oss_fake: FakeOss, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dataprep_converter.stores.objects.oss.ANSWER_SECONDS", 0.5)
    with HttpProxy(oss_fake.port, expired="SecurityTokenExpired", stall_seconds=0.7) as proxy:
        direct = oss(request)
        place = replace(direct, settings=replace(direct.settings, endpoint=proxy.endpoint))
        store = place.store()
        store.put(place.at("there"), b"content")
        for call in CALLS.values():
            proxy.arm([Fault(1, kind)])
            if kind is Kind.EXPIRED:
                with pytest.raises(BadCredentials, match="refused the credentials: 403 SecurityTokenExpired"):
                    call(store, place)
            else:
                call(store, place)
            assert len(proxy.hits) == 1
        if kind is not Kind.EXPIRED:
            assert store.get(place.at("exclusive")) == store.get(place.at("there")) == b"content"
            assert store.stat(place.at("put")) is None


def test_an_upload_is_whole_whichever_of_its_requests_is_changed_on_the_way(
    request: pytest.FixtureRequest, oss_fake: FakeOss, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dataprep_converter.stores.objects.oss.part_bytes_for", lambda _: 100 << 10)
    content = bytes(150 << 10)
    with HttpProxy(oss_fake.port, expired="SecurityTokenExpired") as proxy:
        direct = oss(request)
        place = replace(direct, settings=replace(direct.settings, endpoint=proxy.endpoint))
        # The requests begin the upload, send its two parts, and complete it. Of these requests, only the completion has no digest. But the
        # flipped bit makes the completion's body invalid XML, so the fault is detected.
        for number in (1, 2, 3, 4):
            proxy.arm([Fault(number, Kind.FLIPPED_UP)])
            upload = place.store().create(place.at(f"parts-{number}"))
            upload.write(content)
            upload.commit(replace=False)
            assert len(proxy.hits) == 1
            assert direct.store().get(place.at(f"parts-{number}")) == content


def test_faults_make_nothing_pile_up_in_memory(request: pytest.FixtureRequest, oss_fake: FakeOss, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dataprep_converter.stores.objects.oss.part_bytes_for", lambda _: 2 << 20)
    place = oss(request)
    store = place.store()
    piece, pieces = bytes(range(256)) * (4 << 10), 64
    for fault in (
        InjectedFault("error", skip=2, count=2, matching="UploadPart .*/large"),
        InjectedFault("drop", skip=7, count=2, matching="UploadPart .*/large"),
        InjectedFault("truncate", count=2, matching="GetObject .*/large", size=5 << 20),
        InjectedFault("drop", count=1, matching="GetObject .*/large"),
    ):
        oss_fake.inject(fault)
    tracemalloc.start()
    try:
        upload = store.create(place.at("large"))
        for _ in range(pieces):
            upload.write(piece)
        upload.commit(replace=False)
        written = tracemalloc.get_traced_memory()[1]
        del upload
        gc.collect()
        tracemalloc.reset_peak()
        before = tracemalloc.get_traced_memory()[0]
        with store.open(place.at("large")) as source:
            assert sum(len(each) for each in source.stream()) == pieces * len(piece)
        read = tracemalloc.get_traced_memory()[1] - before
    finally:
        tracemalloc.stop()
    assert oss_fake.faults() == []
    # The object is 64 MiB long. At any time, four parts of 2 MiB are being sent and one is being filled. Each part that is being
    # sent is in memory twice: in the request and in the fake.
    assert written < 32 << 20
    assert read < 24 << 20
