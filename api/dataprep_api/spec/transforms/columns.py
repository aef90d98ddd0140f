"""Transforms of whole columns: which there are, what they are called, and which records stay."""

from typing import Annotated, Literal

from pydantic import Field

from dataprep_api.spec.model import Column, Model

Columns = Annotated[list[Column], Field(min_length=1, max_length=64)]
"""Names, or positions such as `3`, `-1`, `0..4`."""


class Select(Model):
    """Keeps these columns, in order. All others are dropped."""

    columns: Columns
    """Columns to keep."""


class Drop(Model):
    """Drops columns."""

    columns: Columns
    """Columns to drop."""


class Rename(Model):
    """Renames columns."""

    columns: Annotated[dict[Annotated[str, Field(max_length=256)], Column], Field(min_length=1, max_length=64)]
    """New name by old name."""


class Filter(Model):
    """Keeps records that match. An expression decides; the other records are counted as filtered."""

    where: Annotated[str, Field(min_length=1, max_length=2048)]
    """Expression over columns: `width > 32`. Comparisons (`==`, `!=`, `<`, `in`), arithmetic, `and`, `or`, `not`, and the functions of docs/transforms/columns.md: `width > 32 and label != 'cat'`; `col("image/width") > 32` for a name that is no identifier."""


class Hash(Model):
    """Pseudonymises values. Each is replaced by a keyed digest: equal values stay equal, and can't be read."""

    columns: Columns
    """Columns of text, bytes or integers."""
    key_env: Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$", max_length=63)] | None = None
    """Variable with the key (1 to 64 bytes). An environment variable of the converter: set it in `workers.env` from a Secret. Without a key, short values can be found by trying."""
    bits: Literal[64, 128, 256] = 128
    """Digest length."""


class TokenizeSplit(Model):
    """Splits text into words: a list of strings."""

    columns: Columns
    """Columns of text."""
    separator: Annotated[str, Field(min_length=1, max_length=16)] | None = None
    """Text between words. It is matched exactly. Default: any run of white space, without empty words."""
    lower: bool = False
    """Whether to lower-case first."""
    max_words: Annotated[int, Field(ge=1, le=100_000)] | None = None
    """Words to keep, from the start."""
