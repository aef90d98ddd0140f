"""Transforms that select, rename or rewrite columns, and the record filter."""

from typing import Annotated, Literal

from pydantic import Field

from dataprep_api.spec.model import Column, Model

Columns = Annotated[list[Column], Field(min_length=1, max_length=64)]
"""Column names, or positions such as `3`, `-1` and `0..4`."""


class Select(Model):
    """Keeps these columns, in this order. All other columns are dropped."""

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
    """Keeps records that match an expression. Records that don't match are counted as filtered."""

    where: Annotated[str, Field(min_length=1, max_length=2048)]
    """Expression over columns. Expressions may use comparisons (`==`, `!=`, `<`, `in`), arithmetic, `and`, `or`, `not`, and the functions listed in docs/transforms/columns.md. Example: `width > 32 and label != 'cat'`. For a column whose name is not an identifier, write `col("image/width") > 32`."""


class Hash(Model):
    """Pseudonymises values.

    Each value is replaced by a keyed digest. Equal values have equal digests, but the values can't be recovered from the digests.
    """

    columns: Columns
    """Columns to hash. The columns contain text, bytes or integers."""
    key_env: Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$", max_length=63)] | None = None
    """Environment variable with the key. The key has 1 to 64 bytes. Set the variable in `workers.env` from a Secret. Without a key, anyone could recover short values by trying all possible values."""
    bits: Literal[64, 128, 256] = 128
    """Length of the digest in bits."""


class TokenizeSplit(Model):
    """Splits text into words: a list of strings."""

    columns: Columns
    """Columns of text."""
    separator: Annotated[str, Field(min_length=1, max_length=16)] | None = None
    """Text between words. It is matched exactly. Default: any run of white space, which never results in empty words."""
    lower: bool = False
    """Whether to convert to lower case first."""
    max_words: Annotated[int, Field(ge=1, le=100_000)] | None = None
    """Maximum number of words. The first words are kept."""


class FillNulls(Model):
    """Replaces nulls with a value. The transform can also add null masks."""

    columns: Columns
    """Columns with nulls."""
    value: Annotated[str, Field(max_length=1024)] | None = None
    """Value in place of a null. Numbers and booleans are written as JSON (`0`, `-1.5`, `NaN`, `true`). Default: 0, `false`, an empty text or an empty list."""
    masks: bool = False
    """Whether to add masks. The mask of the column `fare` is the column `fare_missing`, which is true for nulls."""
