"""Batches. A batch contains some samples as Arrow columns, and lists the samples that could not be read."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dataprep_api.dataset.report import Lossy

SAMPLE: Final = "_sample"
"""The name of a batch's int64 column that contains each sample's number in the plan. With this number, a sample's origin can be found."""


WAS: Final = "was"
"""Key in the metadata of a column whose values were decimals or times.

The value is a schema in the text form that `schemas.schema_text` returns. The only column of the schema is the reader's column, with its
original type.
"""


KEPT: Final = "kept"
"""Key in the metadata of a column that also has the key `WAS`, if the column's type differs between the files.

The value is a schema like the value of `WAS`, but with the type that can hold the values of all files. The value is empty if no decimal
type can hold these values.
"""


NESTED: Final = "nested"
"""Key in the metadata of a column of nested values (structs, lists of structs, maps), which the reader has turned into JSON text.

The value is the description of the values' type (`formats/nested/descriptions.py`).
"""


STRUCTS: Final = "structs"
"""Key in a reader's state. The value is true if each struct is a separate column, because the job keeps structs (`run_id.StructRule`)."""


INT96: Final = "int96"
"""Key in a reader's state. The value is true if Parquet files have INT96 times, which are read in microseconds.

The corresponding part in `run_id.PARTS` has the same name.
"""


TEXT: Final = "text"
"""Key in the metadata of a text column. The value explains to the user why the column isn't numeric, and what to do about it."""


TEXTS: Final = "texts"
"""Key in a reader's state, used only while a plan is made. The value maps each column's name to the column's `TEXT` metadata."""


def marked(schema: pa.Schema, key: str, values: Mapping[str, str]) -> pa.Schema:
    """Returns a copy of the schema in which each column named in `values` has its value as metadata under `key`."""
    fields = []
    for column in schema:
        if column.name in values:
            metadata: dict[Any, Any] = {**(column.metadata or {})}
            column = column.with_metadata(metadata | {key: values[column.name]})
        fields.append(column)
    return pa.schema(fields)


@dataclass(frozen=True)
class Raw:
    """A sample's bytes in the input: all bytes, or only the first `MOST` bytes."""

    content: bytes
    size: int
    """The sample's full size in bytes."""

    MOST: ClassVar[int] = 64 << 10
    """The maximum number of bytes of a sample that are kept."""

    @classmethod
    def of(cls, content: bytes) -> "Raw":
        """Keeps at most the first `MOST` bytes of a sample."""
        return cls(content=content[: cls.MOST], size=len(content))


@dataclass(frozen=True)
class RejectedSample:
    """One sample that could not be read."""

    sample: int
    reason: str
    raw: Raw | None = None
    """The sample's bytes for the quarantine, if the reader has them."""
    column: str = ""
    """The column with the refused value, if a feature refused a value."""
    step: int | None = None
    """If the refused value is in a single step of a sequence, the step's number, counted from 0."""


@dataclass(frozen=True)
class LostDigits:
    """Decimals that lost digits when they were converted to floats."""

    column: str
    samples: npt.NDArray[np.int64]
    texts: Sequence[str]
    """For each of these samples, the first decimal that lost digits."""


@dataclass(frozen=True)
class Batch:
    """Some samples, in the requested order. Bad samples are listed separately."""

    records: pa.RecordBatch
    """The columns of `schema()`, and the column `_sample`. Tensors are `pa.fixed_shape_tensor` columns; encoded images are binary columns."""
    bad: list[RejectedSample]
    bytes_in: int
    """The number of bytes read from the source for this batch."""
    filtered: int = 0
    """The number of samples that a step left out on purpose."""
    added: int = 0
    """The number of records that were added by steps that make several records from one sample."""
    lost: Sequence[LostDigits] = ()
    """The samples' decimals that lost digits when they were read."""
    lossy: Sequence[Lossy] = ()
    """Values that the records store inexactly. Empty until the records have their features."""
    missing: Mapping[str, int] = field(default_factory=dict)
    """Maps each column with nulls that a feature can't store to the number of its nulls. Empty until the records have their features."""

    @property
    def records_in(self) -> int:
        """The number of samples that the batch was made from."""
        return self.records.num_rows + len(self.bad) + self.filtered - self.added
