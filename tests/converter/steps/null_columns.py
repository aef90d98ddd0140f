"""A table with a null in each column, and the jobs that convert it."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from tests.builders.jobs import output_of
from tests.builders.specs import parse_job

from dataprep_api.resources.job import DataPrepJob
from dataprep_converter.inputs.access import Access
from dataprep_converter.tools.verification import verify

_pq: Any = pq  # the module has no type stubs

# Each column has its null in a different place: in the first, a middle or the last row.
COLUMNS: dict[str, Any] = {
    "i": pa.array([None, 2, 3, 4, 5], pa.int64()),
    "f": pa.array([0.5, 1.5, 2.5, 3.5, None], pa.float64()),
    "b": pa.array([True, None, False, True, False]),
    "s": pa.array(["x", "", None, "y", "z"]),
    "v": pa.array([[1, 2], [3, 4], [5, 6], None, [7, 8]], pa.list_(pa.float32(), 2)),
    "u": pa.array([[1, 2], None, [5, 6], [3, 4], [7, 8]], pa.list_(pa.uint8(), 2)),
    "l": pa.array([None, [], [1], [2, 3], [4]], pa.list_(pa.int64())),
    "w": pa.array([["a"], [], ["b", ""], ["c"], None], pa.list_(pa.string())),
    "n": pa.array([0, 1, 2, 3, 4], pa.int64()),
}


def a_job(folder: Path, format_: str, columns: str = "ifbsvulwn", **spec: Any) -> DataPrepJob:
    """A job whose source is a Parquet file with these columns."""
    file = folder / "in" / "rows.parquet"
    if not file.exists():
        file.parent.mkdir(parents=True)
        _pq.write_table(pa.table(COLUMNS), file)
    source = {"uris": [str(file)], "columns": list(columns)} | spec.pop("parquet", {})
    output = {"uri": str(folder / "out"), "format": format_, "shards": {"count": 1}, "overwrite": "IfChanged"} | spec.pop("output", {})
    return parse_job({"source": {"parquet": source}, "output": output} | spec)


def the_file(job: DataPrepJob) -> Path:
    """The only shard of the job's data set, after verification."""
    folder = output_of(job)
    (file,) = verify(str(folder), Access(), every_record=True).files
    return folder / file.file


SKIP = {"onBadRecord": {"policy": "Skip"}}
