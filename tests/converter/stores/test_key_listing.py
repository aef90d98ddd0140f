"""A listing of keys with several requests at the same time has the same result as a listing page by page."""

import hashlib
import threading
from collections.abc import Callable, Iterator
from typing import Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.builders.examples import examples
from tests.converter.stores.played_keys import PlayedKeys, PlayedThreads

from dataprep_converter.core.errors import StoreError, Unreachable
from dataprep_converter.runtime.retry import retrying, with_deadline
from dataprep_converter.stores import Entry
from dataprep_converter.stores.objects import key_listing
from dataprep_converter.stores.objects.key_listing import ALONE, entries_ahead, entries_in_turn
from dataprep_converter.stores.objects.key_stretches import KeyPage

_PAGE: Final = 10


def _md5(number: int) -> str:
    return hashlib.md5(str(number).encode(), usedforsecurity=False).hexdigest()


LAYOUTS: Final = {
    "numbers in one folder": [f"{number:09d}.jpg" for number in range(600)],
    "numbers of different lengths": [f"img_{number}.jpg" for number in range(600)],
    "hashes": [f"{_md5(number)}.jpg" for number in range(600)],
    "large folders": [f"{number // 300:04d}/{number:09d}.jpg" for number in range(900)],
    "folders of about a page": [f"n{number * 7919 % 9973:04d}/{each}.jpg" for number in range(50) for each in range(9 + number % 5)],
    "folders of exactly a page": [f"{number // _PAGE:04d}/{number}.jpg" for number in range(600)],
    "small folders": [f"{_md5(number)[:6]}/{each}.jpg" for number in range(200) for each in range(3)],
    "a folder for each file": [f"{number:06d}/image.jpg" for number in range(600)],
    "nested folders": [f"2026/{month:02d}/{day:02d}/{part}.csv" for month in range(1, 13) for day in range(1, 11) for part in range(6)],
    "folders beside files": [
        *(f"{number:03d}.jpg" for number in range(300)),
        *(f"{number:03d}/{each}" for number in range(60) for each in range(6)),
    ],
    "words": [f"{word}{number}.jpg" for word in ("cat", "dog", "élan", "zebra", "漢") for number in range(120)],
}


def _uris(entries: Iterator[Entry]) -> list[str]:
    return [entry.uri for entry in entries]


def _receive(entries: Iterator[Entry], received: list[str]) -> None:
    """Add the URIs to a list one by one, so that the list contains all URIs before an error."""
    for entry in entries:
        received.append(entry.uri)  # noqa: PERF401 - see above


def _listing_threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name.startswith("listing")]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_the_entries_are_those_of_a_listing_page_by_page(layout: str) -> None:
    keys = PlayedKeys(LAYOUTS[layout], of_a_page=_PAGE)
    assert list(entries_ahead(keys)) == list(entries_in_turn(PlayedKeys(LAYOUTS[layout], of_a_page=_PAGE)))
    assert _listing_threads() == []


_PARTS = st.sampled_from(["a", "b", "a-b", "a.b", "0", "1", "10", "é", "漢", "~", "_", "00", "01"])
_TREES = st.lists(
    st.tuples(st.lists(_PARTS, max_size=3), st.one_of(_PARTS, st.integers(0, 400).map("{:04d}.jpg".format), st.just(""))), max_size=120
).map(lambda paths: ["/".join([*folders, name]) for folders, name in paths if folders or name])


@given(names=_TREES, first=st.integers(0, 50), count=st.integers(0, 150), of_a_page=st.integers(1, 7))
@settings(max_examples=examples(100), deadline=None)
def test_any_tree_is_listed_completely_and_in_order(names: list[str], first: int, count: int, of_a_page: int) -> None:
    keys = PlayedKeys([*names, *(f"b/{number:05d}" for number in range(first, first + count))], of_a_page=of_a_page)
    assert _uris(entries_ahead(keys)) == keys.uris


def test_a_listing_of_a_few_pages_sends_the_same_requests() -> None:
    keys = PlayedKeys([f"{number // 5:03d}/{number:05d}.jpg" for number in range(_PAGE * ALONE)], of_a_page=_PAGE)
    assert _uris(entries_ahead(keys)) == keys.uris
    assert [token for _, token in keys.pages] == [None, *(str(_PAGE * page) for page in range(1, ALONE))]
    assert keys.folder_requests == 0


@pytest.fixture
def threads(monkeypatch: pytest.MonkeyPatch) -> PlayedThreads:
    played = PlayedThreads()
    monkeypatch.setattr(key_listing, "ThreadPoolExecutor", played.executor)
    monkeypatch.setattr(key_listing, "wait", played.wait)
    return played


@pytest.mark.parametrize("layout", LAYOUTS)
def test_each_folder_costs_at_most_one_more_request(layout: str, threads: PlayedThreads) -> None:
    keys = PlayedKeys(LAYOUTS[layout], of_a_page=_PAGE)
    assert _uris(entries_ahead(keys)) == keys.uris
    folders = {key[: place + 1] for key in keys.keys for place, letter in enumerate(key) if letter == "/"}
    # More requests than pages are needed, because guesses are a little closer together than pages, and some guesses are wrong.
    assert len(keys.pages) + keys.folder_requests <= 1.6 * keys.fewest_pages + len(folders)
    assert threads.rounds > 0


@pytest.mark.parametrize(
    ("names", "of_a_page"),
    [
        pytest.param([f"{number:09d}.jpg" for number in range(2000)], 10, id="numbers"),
        pytest.param([f"{_md5(number)}.jpg" for number in range(6000)], 50, id="hashes"),
        pytest.param([f"{number // 500:04d}/{number:09d}.jpg" for number in range(2000)], 10, id="large folders"),
        pytest.param([f"{number // 8:04d}/{number}.jpg" for number in range(2000)], 10, id="folders of a page"),
    ],
)
def test_several_pages_come_at_the_same_time(names: list[str], of_a_page: int, threads: PlayedThreads) -> None:
    keys = PlayedKeys(names, of_a_page=of_a_page)
    assert _uris(entries_ahead(keys)) == keys.uris
    assert 3 * threads.rounds <= keys.fewest_pages - ALONE


def test_only_a_limited_number_of_pages_is_requested_before_it_is_needed() -> None:
    keys = PlayedKeys(LAYOUTS["large folders"], of_a_page=_PAGE)
    for number, _ in enumerate(entries_ahead(keys)):
        assert len(keys.pages) <= 1.6 * (number // _PAGE) + 80


class _Failing(PlayedKeys):
    """Keys of a store where some requests fail.

    `fails` gets a page and the key after which it begins. It returns whether the request for this page fails.
    """

    def __init__(self, names: list[str], *, fails: Callable[[KeyPage, str], bool]) -> None:
        super().__init__(names, of_a_page=_PAGE)
        self._fails = fails

    def page(self, after: str, token: str | None) -> KeyPage:
        page = super().page(after, token)
        if self._fails(page, after):
            raise Unreachable("the store is away")
        return page


@pytest.mark.parametrize("layout", ["numbers in one folder", "large folders", "nested folders"])
def test_an_error_is_raised_after_the_entries_before_it(layout: str) -> None:
    lost = sorted(f"in/{name}" for name in LAYOUTS[layout])[400]
    keys = _Failing(LAYOUTS[layout], fails=lambda page, _: lost in page.keys)
    received: list[str] = []
    with pytest.raises(Unreachable, match="the store is away"):
        _receive(entries_ahead(keys), received)
    assert received == keys.uris[: len(received)]
    assert 400 - _PAGE < len(received) <= 400
    assert _listing_threads() == []


def test_requests_ahead_that_fail_are_sent_again() -> None:
    failed: list[str] = []

    def fails(_: KeyPage, after: str) -> bool:
        """Whether this is the first request that lists a folder ahead of time."""
        is_ahead = after.endswith("/") and after not in failed
        failed.extend([after] * is_ahead)
        return is_ahead

    keys = _Failing(LAYOUTS["large folders"], fails=fails)
    assert _uris(entries_ahead(keys)) == keys.uris
    assert failed == ["in/0001/", "in/0002/"]


def test_requests_ahead_are_not_retried_after_the_deadline() -> None:
    pauses: list[float] = []

    def fail() -> KeyPage:
        raise Unreachable("the store is away")

    class Away(PlayedKeys):
        def page(self, after: str, token: str | None) -> KeyPage:
            page = super().page(after, token)
            return page if len(self.pages) <= ALONE else retrying(fail, what="the page", sleep=pauses.append)

    keys = Away(LAYOUTS["hashes"], of_a_page=_PAGE)
    with with_deadline(seconds=0), pytest.raises(Unreachable):
        list(entries_ahead(keys))
    assert pauses == []


def test_the_names_of_folders_may_be_refused() -> None:
    class NoFolders(PlayedKeys):
        def folders(self, prefix: str, after: str) -> list[str]:  # noqa: ARG002 - see PlayedKeys
            raise Unreachable("no delimiter")

    keys = NoFolders(LAYOUTS["folders of about a page"], of_a_page=_PAGE)
    assert _uris(entries_ahead(keys)) == keys.uris


def test_a_store_may_ignore_where_a_listing_is_to_begin() -> None:
    class FromTheFirstKey(PlayedKeys):
        def page(self, after: str, token: str | None) -> KeyPage:
            super().page(after, token)
            return self.page_from(int(token or 0))

    keys = FromTheFirstKey(LAYOUTS["large folders"], of_a_page=_PAGE)
    assert _uris(entries_ahead(keys)) == keys.uris
    assert len(keys.pages) <= 2 * keys.fewest_pages + 2


@pytest.mark.parametrize("entries", [5, _PAGE * ALONE + 5, 500])
def test_a_closed_listing_leaves_no_threads(entries: int) -> None:
    listing = entries_ahead(PlayedKeys(LAYOUTS["large folders"], of_a_page=_PAGE))
    for _ in range(entries):
        next(listing)
    listing.close()
    assert _listing_threads() == []


@pytest.mark.parametrize("place", [3, 250])
def test_keys_out_of_order_are_refused(place: int) -> None:
    keys = PlayedKeys(LAYOUTS["words"], of_a_page=_PAGE)
    keys.keys[place], keys.keys[place + 1] = keys.keys[place + 1], keys.keys[place]
    with pytest.raises(StoreError, match=f"{keys.keys[place + 1]} after {keys.keys[place]}"):
        list(entries_ahead(keys))
