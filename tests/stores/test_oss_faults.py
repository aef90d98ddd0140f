"""Each fault at each kind of request to OSS: what may be repeated is repeated, and a token that is too old is named."""

from collections.abc import Callable
from dataclasses import replace

import pytest
from tests.stores.places import Place, oss

from dataprep_converter.errors import BadCredentials
from dataprep_converter.stores import Store
from storeservers import FakeOss
from storeservers.faulty import Fault, HttpProxy, Kind

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
    monkeypatch.setattr("dataprep_converter.stores.oss.ANSWER_SECONDS", 0.5)
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
