"""Tests of the guesses at which keys the next pages of a listing begin."""

import hashlib
from bisect import bisect_right
from itertools import islice, pairwise

import pytest

from dataprep_converter.stores.objects.page_guesses import following


def test_numbers_go_on_as_far_apart_as_on_the_page() -> None:
    page = [f"in/{number:06d}.jpg" for number in range(1000)]
    assert list(islice(following(page), 3)) == ["in/001898", "in/002797", "in/003696"]


def test_a_number_is_carried_to_the_digits_before_it() -> None:
    page = [f"in/img-{number:06d}.jpg" for number in range(8900, 9900)]
    assert list(islice(following(page), 2)) == ["in/img-01078", "in/img-01167"]


def test_numbers_end_with_the_last_one_of_their_length() -> None:
    assert list(following([f"in/{number:04d}.jpg" for number in range(7000, 8000)])) == ["in/8898", "in/9797"]


def test_guesses_of_hashes_are_about_a_page_apart() -> None:
    keys = sorted(hashlib.md5(str(number).encode(), usedforsecurity=False).hexdigest() for number in range(10_000))
    guesses = list(islice(following(keys[:500]), 15))
    places = [bisect_right(keys, guess) for guess in [keys[499], *guesses]]
    apart = [after - before for before, after in pairwise(places)]
    assert len(guesses) == 15
    assert 350 < min(apart) <= max(apart) < 550


@pytest.mark.parametrize("page", [["in/a-é", "in/a-ü"], ["in/x", "in/x"], ["in/-", "in/~"], ["in/漢", "in/字"]])
def test_other_names_lead_to_no_guesses(page: list[str]) -> None:
    assert list(following(page)) == []


@pytest.mark.parametrize("page", [["in/a", "in/b"], ["in/9", "in/A", "in/z"], ["in/1", "in/1/2"], ["in/0", "in/0é"], ["a", "b"]])
def test_guesses_increase_and_come_after_the_page(page: list[str]) -> None:
    guesses = [page[-1], *islice(following(page), 50)]
    assert guesses == sorted(set(guesses))
