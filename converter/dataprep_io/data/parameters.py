"""Checks the parameters of `write`, and the names of columns, before any data is read."""

import os
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from dataprep_api import quantity
from dataprep_converter.core.errors import BadSpec

AnyPath = str | os.PathLike[str]


# Any here and below, because users can pass values of every type.
def path(value: Any) -> str:
    """Returns the text of a path or URI. Raises TypeError for a value of another type, and BadSpec for an empty text."""
    text = os.fspath(value)
    if not isinstance(text, str):
        raise TypeError(f"uri must be a str or a path; got {value!r}.")
    if not text.strip():
        raise BadSpec(f"uri must name the folder of the data set; got {value!r}. Use '.' for the working directory.")
    return text


def names(value: Any, parameter: str) -> tuple[str, ...]:
    """Returns a list of different names. Raises BadSpec for anything else."""
    if isinstance(value, str) or not isinstance(value, Sequence) or not all(isinstance(name, str) and name for name in value):
        raise BadSpec(f'{parameter} must be a list of names, such as ["a", "b"]; got {value!r}.')
    repeated = next((name for place, name in enumerate(value) if name in value[:place]), None)
    if repeated is not None:
        raise BadSpec(f"{parameter} has the name {repeated!r} twice.")
    return tuple(value)


def whole_number(value: Any, parameter: str) -> int:
    """Returns a whole number of at least 1. Raises BadSpec for anything else."""
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise BadSpec(f"{parameter} must be a whole number of at least 1; got {value!r}.")
    return value


def size(value: Any, parameter: str) -> int:
    """Returns a number of bytes. Raises BadSpec for anything else."""
    try:
        return whole_number(quantity.to_bytes(value) if isinstance(value, str) else value, parameter)
    except (BadSpec, ValueError):
        raise BadSpec(f"{parameter} must be a number of bytes or a string such as '64Mi'; got {value!r}.") from None


def schema(value: Any) -> pa.Schema | None:
    """Returns the columns' types. Raises TypeError for anything else."""
    if value is not None and not isinstance(value, pa.Schema):
        raise TypeError(f"schema must be a pyarrow.Schema; got {type(value).__name__}. Use pyarrow.schema({value!r}).")
    return value


def shown(value: Any, most: int = 80) -> str:
    """Returns a value's repr for a message, cut to at most this many characters."""
    text = repr(value)
    return text if len(text) <= most else f"{text[:most]}…"


def check_column_name(name: Any, of: str) -> None:
    """Raises BadSpec unless the name of a column is text. In the message, `of` is the name of the data that has the column."""
    if not isinstance(name, str):
        raise BadSpec(f"{of} has a column named {name!r}. Column names must be strings.")
