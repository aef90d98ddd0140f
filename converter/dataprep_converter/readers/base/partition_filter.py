"""Leaves out folders whose names don't satisfy the conditions of `partitions`, before any of their files is opened or counted.

`partitions.py` reads the keys in folder names, and turns them into columns. A value is compared as a number if the condition's value is an
unquoted number. Otherwise it is compared as text, by code points.
"""

import operator
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal, InvalidOperation
from typing import Any, Final

from dataprep_api.spec.sources.partition_conditions import PartitionTest, Value, parse
from dataprep_converter.core.errors import BadSpec

Keys = Sequence[tuple[str, str | None]]
"""The (key, value) of each folder named `KEY=VALUE`; the value of a null is None."""

_COMPARISONS: Final[Mapping[str, Callable[[Any, Any], bool]]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_TRUTH: Final = {"true": True, "false": False}
_NUMBERS: Final = ("Int64", "Float32", "Float64")


class PartitionFilter:
    """The conditions of a source's `partitions`."""

    def __init__(self, conditions: Mapping[str, str], types: Mapping[str, str | None], *, of: str) -> None:
        """`types` contains the column types that the spec gives. Raises BadSpec for a condition whose value doesn't have its column's
        type."""
        self.conditions = conditions
        self.of = of
        self._types = types
        self._tests = {name: parse(text) for name, text in conditions.items()}
        for name, tests in self._tests.items():
            for test in tests:
                for value in test.values:
                    if types.get(name) not in (None, "String") and self._parsed(value.text, name, is_number=True) is None:
                        raise BadSpec(f"{of}.partitions: {value.text!r} is not of the type {types[name]}, which the column {name!r} has.")

    def keeps(self, keys: Keys, uri: str) -> bool:
        """Whether a folder satisfies all conditions on its keys. Conditions on keys that the folder's path doesn't have are ignored.

        A null satisfies only `is null`. If the condition's value is a number but the folder's value isn't, raises BadSpec, which names the
        file or folder `uri`.
        """
        return all(self._holds(test, name, value, uri) for name, value in keys for test in self._tests.get(name, ()))

    def check_names(self, names: Sequence[str], uri: str) -> None:
        """Raises BadSpec for a condition on a key that the folders of the file `uri` don't have."""
        for name in self.conditions:
            if name not in names:
                raise BadSpec(
                    f"{self.of}.partitions: {uri} is in no folder that is named {name}=VALUE; its folders have the keys {', '.join(names) or 'none'}.",
                    uri=uri,
                )

    def __str__(self) -> str:
        return ", ".join(f"{name} {condition}" for name, condition in self.conditions.items())

    def _holds(self, test: PartitionTest, name: str, text: str | None, uri: str) -> bool:
        if test.operator.endswith("null"):
            return (text is None) == (test.operator == "is null")
        if text is None:
            return False
        is_number = self._compares_numbers(test.values, name)
        value = self._parsed(text, name, is_number=is_number)
        others = [self._parsed(other.text, name, is_number=is_number) for other in test.values]
        if value is None:
            kind = self._types.get(name)
            expected, advice = (f"of the type {kind}", "") if kind else ("a number", " To compare text, write the value in quotes.")
            raise BadSpec(
                f"{uri}: {text!r} in the name of its folder is not {expected}, so {self.of}.partitions can't compare it with "
                f"{test.values[0].text} (column {name!r}).{advice}",
                uri=uri,
            )
        if test.operator in ("in", "not in"):
            return (value in others) == (test.operator == "in")
        return _COMPARISONS[test.operator](value, others[0])

    def _compares_numbers(self, values: Sequence[Value], name: str) -> bool:
        if (kind := self._types.get(name)) is not None:
            return kind in _NUMBERS
        return all(not value.is_quoted and _number(value.text) is not None for value in values)

    def _parsed(self, text: str, name: str, *, is_number: bool) -> Any:
        """The value to compare: text, a number or a Boolean. Returns None if `text` doesn't represent a value of the type."""
        kind = self._types.get(name)
        if kind == "Bool":
            return _TRUTH.get(text.lower())
        return _number(text) if is_number and kind != "String" else text


def _number(text: str) -> Decimal | None:
    try:
        number = Decimal(text) if text.isascii() and "_" not in text and text == text.strip() else None
    except InvalidOperation:
        return None
    return number if number is not None and number.is_finite() else None
