"""Batches: some samples as Arrow columns, and those among them that could not be read."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dataprep_api.dataset.report import Lossy

SAMPLE: Final = "_sample"
"""Column of every batch: the sample's number in the plan (int64), from which its origin is found."""


WAS: Final = "was"
"""Metadata of a column whose values were decimals or times: a schema as `schemas.py` freezes it, with the reader's column and the type of its values."""


TEXT: Final = "text"
"""Metadata of a column of text: why it is no column of numbers, and what to do about it, as sentences."""


TEXTS: Final = "texts"
"""In a reader's state while a plan is made, not in the plan: that metadata by column."""


def marked(schema: pa.Schema, key: str, said: Mapping[str, str]) -> pa.Schema:
    """The schema with this metadata in addition, by column."""
    fields = []
    for column in schema:
        if column.name in said:
            metadata: dict[Any, Any] = {**(column.metadata or {})}
            column = column.with_metadata(metadata | {key: said[column.name]})
        fields.append(column)
    return pa.schema(fields)


@dataclass(frozen=True)
class Raw:
    """A sample's bytes in the input, or the beginning of them."""

    content: bytes
    size: int
    """Bytes of the whole."""

    MOST: ClassVar[int] = 64 << 10
    """Bytes that are kept."""

    @classmethod
    def of(cls, whole: bytes) -> "Raw":
        """As much of the sample as is kept."""
        return cls(content=whole[: cls.MOST], size=len(whole))


@dataclass(frozen=True)
class RejectedSample:
    """One sample that could not be read."""

    sample: int
    reason: str
    raw: Raw | None = None
    """For the quarantine, if the reader has it."""
    column: str = ""
    """Column at fault, when a feature refused it."""
    step: int | None = None
    """Step of the column's sequence that is at fault, from 0, when it is a single one."""


@dataclass(frozen=True)
class LostDigits:
    """Decimals with more digits than the values read from them."""

    column: str
    samples: npt.NDArray[np.int64]
    texts: Sequence[str]
    """The first of each of these samples."""


@dataclass(frozen=True)
class Batch:
    """Some samples in the requested order, without the bad ones."""

    records: pa.RecordBatch
    """Columns of `schema()` and `_sample`. Tensors are `pa.fixed_shape_tensor` columns, encoded images binary columns."""
    bad: list[RejectedSample]
    bytes_in: int
    """Bytes read from the source for it."""
    filtered: int = 0
    """Samples that a step left out on purpose."""
    added: int = 0
    """Records beyond one per sample, from a step that makes several of one."""
    lost: Sequence[LostDigits] = ()
    """Of the samples that were read."""
    lossy: Sequence[Lossy] = ()
    """Of the records, once they have their features."""
