"""Transforms of whole columns: which there are, what they are called, and which records stay."""

from typing import Annotated, Literal

from pydantic import Field

from dataprep_api.spec.model import Column, Model

Columns = Annotated[list[Column], Field(min_length=1, max_length=64)]
"""Names, or positions such as `3`, `-1`, `0..4`."""


class Select(Model):
    """Keeps some columns, in this order, and leaves out all others."""

    columns: Columns
    """Columns to keep."""


class Drop(Model):
    """Leaves out some columns."""

    columns: Columns
    """Columns to leave out."""


class Rename(Model):
    """Gives columns other names."""

    columns: Annotated[dict[Annotated[str, Field(max_length=256)], Column], Field(min_length=1, max_length=64)]
    """New name by old name."""


class Filter(Model):
    """Keeps the records for which an expression is true. The others are counted as filtered."""

    where: Annotated[str, Field(min_length=1, max_length=2048)]
    """Comparisons (`==`, `!=`, `<`, `in`), arithmetic, `and`, `or`, `not`, and the functions of docs/transforms/columns.md over columns: `width > 32 and label != 'cat'`; `col("image/width") > 32` for a name that is no identifier."""


class Hash(Model):
    """Replaces personal values by a keyed digest: equal values stay equal, and can't be read."""

    columns: Columns
    """Columns of text, bytes or whole numbers."""
    key_env: Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$", max_length=63)] | None = None
    """Environment variable of the converter that holds the key (1 to 64 bytes): set it in `workers.env` from a Secret. Without a key, anyone can find short values again by trying."""
    bits: Literal[64, 128, 256] = 128
    """Length of the digest."""


class TokenizeSplit(Model):
    """Cuts text into words: a list of strings for each record."""

    columns: Columns
    """Columns of text."""
    separator: Annotated[str, Field(min_length=1, max_length=16)] | None = None
    """Exact text between the words. Default: any run of white space, and no empty words."""
    lower: bool = False
    """Whether to convert to lower case first."""
    max_words: Annotated[int, Field(ge=1, le=100_000)] | None = None
    """Words to keep, the first ones."""
