"""Object stores can begin a listing after any key, and can list the folders after a key.

The listing with several requests needs both (`key_listing`).
"""

import pytest
from tests.converter.stores import places
from tests.converter.stores.places import Place

from dataprep_converter.stores import Store
from dataprep_converter.stores.objects import key_listing
from dataprep_converter.stores.objects.gcs import GcsStore
from dataprep_converter.stores.objects.key_listing import entries_ahead
from dataprep_converter.stores.objects.key_stretches import Keys
from dataprep_converter.stores.objects.oss import OssStore
from dataprep_converter.stores.objects.s3 import S3Store

NAMES = ["a", "b/1", "b/2", "b-1", "b0", "c/d/1", "c/e/1", "c/é", "d+ &%/1", "ü/漢"]


@pytest.fixture(params=[places.s3, places.oss, places.gcs])
def place(request: pytest.FixtureRequest) -> Place:
    made: Place = request.param(request)
    store = made.store()
    for name in NAMES:
        store.put(made.at(name), b"")
    return made


def keys_of(place: Place) -> Keys:
    store: Store = place.store()
    if isinstance(store, OssStore):
        return store.keys_below(place.root)
    assert isinstance(store, S3Store | GcsStore)
    bucket, folder = store.place(place.root)
    return bucket.keys_below(place.root, f"{folder}/")


@pytest.mark.parametrize("after", ["", "a", "aa", "b-1", "b/", "b/1", "b0", "c/d/", "d", "d+ &%/", "zzz", "ü/", "漢"])
def test_a_page_begins_after_any_key(place: Place, after: str) -> None:
    keys = keys_of(place)
    page = keys.page(f"{keys.prefix}{after}", None)
    assert list(page.keys) == sorted(f"{keys.prefix}{name}" for name in NAMES if name > after)
    assert [entry.uri for entry in page.entries if entry is not None] == [place.at(name) for name in sorted(NAMES) if name > after]
    assert page.token is None


@pytest.mark.parametrize(
    ("level", "after", "folders"),
    [
        ("", "", ["b/", "c/", "d+ &%/", "ü/"]),
        ("", "b0", ["c/", "d+ &%/", "ü/"]),
        ("", "c0", ["d+ &%/", "ü/"]),
        ("", "ü0", []),
        ("c/", "c/", ["c/d/", "c/e/"]),
        ("c/", "c/d0", ["c/e/"]),
        ("b/", "b/", []),
    ],
)
def test_the_folders_behind_a_key_are_listed(place: Place, level: str, after: str, folders: list[str]) -> None:
    keys = keys_of(place)
    found = keys.folders(f"{keys.prefix}{level}", f"{keys.prefix}{after}")
    assert list(found) == [f"{keys.prefix}{name}" for name in folders]


def test_a_listing_ahead_is_complete(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(key_listing, "ALONE", 0)
    assert [entry.uri for entry in entries_ahead(keys_of(place))] == [place.at(name) for name in sorted(NAMES)]
