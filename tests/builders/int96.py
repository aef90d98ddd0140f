"""Parquet files whose timestamps have the old type INT96, which older versions of Spark, Hive and Impala write."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet

FAR: Final = 253_402_300_799_999_999
"""The last microsecond of the year 9999, since 1970."""
_pq: Any = pyarrow.parquet  # the module has no type stubs


def write_int96(file: Path, columns: Mapping[str, Any], **options: Any) -> Path:
    """Write a file in which all timestamps are INT96. Return its path."""
    file.parent.mkdir(parents=True, exist_ok=True)
    _pq.write_table(pa.table(dict(columns)), file, use_deprecated_int96_timestamps=True, store_schema=False, **options)
    schema = _pq.ParquetFile(file).schema
    assert "INT96" in [schema.column(leaf).physical_type for leaf in range(len(schema))]
    return file
