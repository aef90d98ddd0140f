"""Uses the keys of one page of a listing to guess at which keys later pages begin.

Guesses are possible if names contain numbers or hashes, such as `000123.jpg` or `9f86d081.jpg`. The first and last keys of a page show how
many numbers a page covers. If one page covers a thousand numbers, the next page probably does too.
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
"""The alphabets of numbers and hashes, the smallest alphabet first. The characters of each alphabet are sorted."""
_CHARACTERS: Final = frozenset(_ALPHABETS[-1])
_TENTHS: Final = 9
"""The distance between two guesses, in tenths of a page. If the distance were a complete page, the names between two guesses would often
fill a little more than one page, and need two requests."""


def following(keys: Sequence[str]) -> Iterator[str]:
    """Yields guesses: increasing keys that follow the page with the given keys. Two guesses are about as far apart as the page's first and
    last keys.

    Stops when the number in the names would need another digit. Yields nothing if the page's names contain no numbers or hashes.
    """
    first, last = keys[0], keys[-1]
    at = common_length(first, last)
    # Use the first character that differs and two more characters, because the first one may have only one or two values on a page.
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
    """Returns up to three letters or digits of a key, beginning at the position `at`."""
    return "".join(takewhile(_CHARACTERS.__contains__, key[at : at + 3]))


def _number(key: str, begin: int, digits: int, alphabet: str) -> int:
    """Returns the number at the position `begin` of a key. A character outside the alphabet is replaced by the next greater digit."""
    number = 0
    for character in key[begin : begin + digits].ljust(digits, alphabet[0]):
        number = number * len(alphabet) + min(bisect_left(alphabet, character), len(alphabet) - 1)
    return number


def _text(number: int, digits: int, alphabet: str) -> str:
    """Returns the text of the number, with this many digits."""
    text = ""
    for _ in range(digits):
        number, digit = divmod(number, len(alphabet))
        text = alphabet[digit] + text
    return text
