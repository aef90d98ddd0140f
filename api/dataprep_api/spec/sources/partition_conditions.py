"""The conditions of `partitions`, which choose folders by their names (`date: ">= 2026-01-01"`). This module only parses and checks the
conditions.

condition := test ("and" test)*
test      := ("==" | "=" | "!=" | "<" | "<=" | ">" | ">=") value | ["not"] "in" value ("," value)* | "is" ["not"] "null"
value     := text in single or double quotes, or a word without spaces, quotes and commas
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Final

from pydantic import AfterValidator, Field, ValidationInfo

from dataprep_api.spec.model import Text

_TOKEN: Final = re.compile(r"""\s*(?:(?P<quoted>'[^']*'|"[^"]*")|(?P<sign>==|!=|<=|>=|<|>|=|,)|(?P<word>[^\s'",=<>!][^\s'",]*))""")
_SIGNS: Final = ("==", "!=", "<", "<=", ">", ">=")
_EXPECTED: Final = "expected tests such as `>= 2026-01-01 and < 2026-02-01`, `!= de`, `in at, de`, `not in 1, 2` or `is not null`"


@dataclass(frozen=True)
class Value:
    """A value in a condition."""

    text: str
    is_quoted: bool
    """Whether the value has quotes. A value in quotes is text, even if it looks like a number."""


@dataclass(frozen=True)
class PartitionTest:
    """One test of a condition."""

    operator: str
    """`==`, `!=`, `<`, `<=`, `>`, `>=`, `in`, `not in`, `is null` or `is not null`."""
    values: tuple[Value, ...] = ()


def parse(text: str) -> list[PartitionTest]:
    """Return the tests of a condition, all of which must hold. Raises ValueError, which quotes the condition and says what was expected."""
    tokens = _tokens(text)
    tests: list[PartitionTest] = []
    while True:
        tests.append(_test(tokens, text))
        if not tokens:
            return tests
        if tokens.pop(0) != ("word", "and"):
            raise ValueError(f"{text!r} is not a condition; {_EXPECTED}")


def _tokens(text: str) -> list[tuple[str, str]]:
    tokens: list[tuple[str, str]] = []
    at = 0
    while text[at:].strip():
        match = _TOKEN.match(text, at)
        if match is None or match.lastgroup is None:
            raise ValueError(f"{text!r} is not a condition: {text[at:].strip()!r} can't be read; {_EXPECTED}")
        tokens.append((match.lastgroup, match[match.lastgroup]))
        at = match.end()
    return tokens


def _test(tokens: list[tuple[str, str]], text: str) -> PartitionTest:
    """Take the next test from the front of the tokens."""
    wrong = ValueError(f"{text!r} is not a condition; {_EXPECTED}")

    def has_word(word: str) -> bool:
        if tokens[:1] != [("word", word)]:
            return False
        tokens.pop(0)
        return True

    def value() -> Value:
        if not tokens or tokens[0][0] == "sign":
            raise wrong
        kind, found = tokens.pop(0)
        return Value(found[1:-1] if kind == "quoted" else found, kind == "quoted")

    if has_word("is"):
        negated = has_word("not")
        if not has_word("null"):
            raise wrong
        return PartitionTest("is not null" if negated else "is null")
    negated = has_word("not")
    if has_word("in"):
        values = [value()]
        while tokens[:1] == [("sign", ",")]:
            tokens.pop(0)
            values.append(value())
        return PartitionTest("not in" if negated else "in", tuple(values))
    if negated or not tokens:
        raise wrong
    kind, sign = tokens.pop(0)
    sign = "==" if sign == "=" else sign
    if kind != "sign" or sign not in _SIGNS:
        raise wrong
    return PartitionTest(sign, (value(),))


def _check_conditions(conditions: Mapping[str, str], info: ValidationInfo) -> Mapping[str, str]:
    if info.data.get("hive_partitions") is None:
        raise ValueError("partitions needs hivePartitions: Infer or String, so that the folders' names are read")
    for name, condition in conditions.items():
        try:
            parse(condition)
        except ValueError as exc:
            raise ValueError(f"{name}: {exc}") from exc
    return conditions


PartitionConditions = Annotated[
    dict[Annotated[str, Field(max_length=256)], Text], Field(min_length=1, max_length=16), AfterValidator(_check_conditions)
]
"""Maps folder keys to conditions. In a model, this field must come after `hive_partitions`."""
