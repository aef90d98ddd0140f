"""Reads the digests of a source's samples on the machines of an SQL engine, for `dedupe_by_sql.py`."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa

from dataprep_api.spec import Source
from dataprep_converter.core.errors import ConvertError
from dataprep_converter.inputs.access import Access
from dataprep_converter.planning.dedupe import digests_of_all
from dataprep_converter.planning.planned_inputs import read_columns
from dataprep_converter.planning.sample_limit import SampleLimit
from dataprep_converter.readers import reader_class
from dataprep_converter.readers.joins.part_reader import borders, stream_of, text_of, units_of
from dataprep_converter.runtime.plan_progress import PlanProgress
from dataprep_converter.sampling.units import UnitTable

MOST_PARTS: Final = 10_000
"""Maximum number of parts. Each part is a task, and an engine would need much memory to list many more tasks."""

_arrow: Any = pa  # the type stubs lack some functions
ROWS: Final[pa.Schema] = _arrow.schema({"sample": pa.int64(), "d0": pa.int64(), "d1": pa.int64(), "error": pa.string()})
"""A row has the number of a sample and the two halves of its digest. If an error ends a part, a row has the number of the part's first
sample and the error."""


@dataclass(frozen=True)
class DigestReader:
    """Reads the digests of any part of the samples. Can be pickled."""

    kind: str
    source: Any
    """The member of `spec.source`."""
    state: Mapping[str, Any]
    rules: Mapping[str, Any]
    """The rules that the reader follows; see `Access.rules`."""
    units: bytes
    """The units, as an Arrow stream."""
    samples: int
    bytes_in: int
    columns: Sequence[str]
    exact: Sequence[str]
    """The decimal columns whose digits are all compared."""
    limit: SampleLimit | None
    borders: Sequence[int]
    """The number of the first sample of each part, followed by the number of samples."""

    @classmethod
    def of(
        cls,
        source: Source,
        state: Mapping[str, Any],
        units: UnitTable,
        columns: Sequence[str],
        *,
        rules: Mapping[str, Any],
        exact: Sequence[str],
        limit: SampleLimit | None,
    ) -> "DigestReader":
        """Returns the reader of a source's columns. `source` has no signatures in its addresses."""
        firsts = borders(units)
        step = -(-(len(firsts) - 1) // MOST_PARTS)
        return cls(
            kind=source.kind,
            source=source.member,
            state=state,
            rules=rules,
            units=stream_of(units),
            samples=units.samples,
            bytes_in=units.size,
            columns=columns,
            exact=exact,
            limit=limit,
            borders=[*firsts[:-1:step], firsts[-1]],
        )

    @property
    def parts(self) -> int:
        """The number of parts."""
        return len(self.borders) - 1

    def __call__(self, access: Access, part: int) -> Iterator[pa.RecordBatch]:
        """Yields the rows of a part. An error of the reader is yielded as a row. If it were raised, the engine would repeat the part."""
        samples = range(self.borders[part], self.borders[part + 1])
        try:
            yield from self._read(access, samples)
        except ConvertError as exc:
            yield _rows(samples=[samples.start], first=[0], second=[0], errors=pa.array([text_of(exc)], pa.string()))

    def _read(self, access: Access, samples: range) -> Iterator[pa.RecordBatch]:
        access.adopt(self.rules)
        units = units_of(self.units)
        with reader_class(self.kind)(self.source, self.state, access) as reader:
            batches = read_columns(
                reader, units, self.columns, bytes_in=self.bytes_in, progress=PlanProgress(), exact=self.exact, samples=samples
            )
            for asked, records, good in batches:
                halves = digests_of_all(asked, records, good, self.columns).view(np.int64)
                if self.limit is not None:
                    within = ~self.limit.beyond(units, asked)
                    asked, halves = asked[within], halves[within]
                yield _rows(asked, halves[:, 0], halves[:, 1], pa.nulls(len(asked), pa.string()))


def _rows(samples: Any, first: Any, second: Any, errors: Any) -> pa.RecordBatch:  # Any: each column is an array or a list
    return pa.RecordBatch.from_arrays([*(pa.array(column, pa.int64()) for column in (samples, first, second)), errors], schema=ROWS)
