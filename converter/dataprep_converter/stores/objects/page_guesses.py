"""Guesses at which keys the later pages of a listing begin, from the keys of one page.

This works for names that contain numbers or hashes, such as `000123.jpg` or `9f86d081.jpg`. A page of such names shows how far apart the
beginnings of two pages are: if a page ends a thousand numbers after its beginning, the next page does so too.
"""

import string
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from itertools import takewhile
from typing import Final

_ALPHABETS: Final = (
    string.digits,
    "0123456789abcdef",
    "0123456789ABCDEF",
    string.ascii_lowercase,
    string.ascii_uppercase,
    string.digits + string.ascii_lowercase,
    string.digits + string.ascii_uppercase,
    string.digits + string.ascii_uppercase + string.ascii_lowercase,
)
"""The characters of numbers and hashes, each sorted, the smallest alphabet first."""
_CHARACTERS: Final = frozenset(_ALPHABETS[-1])
_TENTHS: Final = 9
"""The distance between two guesses, in tenths of the page. If it were the complete page, the names between two guesses would often fill a
little more than a page, and need two requests."""


def following(keys: Sequence[str]) -> Iterator[str]:
    """Yields increasing keys behind a page, about as far apart as the page's first and last keys.

    Ends where the number of the names would get another digit. Yields nothing if the page's names contain no numbers or hashes.
    """
    first, last = keys[0], keys[-1]
    at = common_length(first, last)
    # Two more characters than the first one that differs, because a page may span only one or two values of that character.
    varying = set("".join(_varying(key, at) for key in keys))
    alphabet = next((each for each in _ALPHABETS if varying.issubset(each)), "")
    if not varying:
        return
    begin = at
    while begin > 0 and last[begin - 1] in alphabet:
        begin -= 1
    digits = at - begin + len(_varying(last, at))
    value = _number(last, begin, digits, alphabet)
    step = (value - _number(first, begin, digits, alphabet)) * _TENTHS // 10
    while step > 0 and value + step < len(alphabet) ** digits:
        value += step
        yield last[:begin] + _text(value, digits, alphabet)


def common_length(first: str, second: str) -> int:
    """Returns the number of characters with which both keys begin."""
    return next(
        (place for place, (one, other) in enumerate(zip(first, second, strict=False)) if one != other), min(len(first), len(second))
    )


def _varying(key: str, at: int) -> str:
    """Returns up to three letters or digits at a place of a key."""
    return "".join(takewhile(_CHARACTERS.__contains__, key[at : at + 3]))


def _number(key: str, begin: int, digits: int, alphabet: str) -> int:
    """Returns the number at a place of a key. Characters outside the alphabet count as the next digit in the alphabet's order."""
    number = 0
    for character in key[begin : begin + digits].ljust(digits, alphabet[0]):
        number = number * len(alphabet) + min(bisect_left(alphabet, character), len(alphabet) - 1)
    return number


def _text(number: int, digits: int, alphabet: str) -> str:
    """Returns the number with this many digits."""
    text = ""
    for _ in range(digits):
        number, digit = divmod(number, len(alphabet))
        text = alphabet[digit] + text
    return text
