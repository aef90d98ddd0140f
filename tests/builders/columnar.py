"""Files of columnar formats, written by PyArrow."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.feather
import pyarrow.orc
import pyarrow.parquet

_pq: Any = pyarrow.parquet  # the modules have no type stubs
_orc: Any = pyarrow.orc
_feather: Any = pyarrow.feather


def write_table(folder: Path, table: pa.Table, kind: str, name: str = "rows") -> Path:
    """Write the table as a `parquet`, `arrow` or `orc` file. Return the file's path."""
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / f"{name}.{kind}"
    if kind == "arrow":
        _feather.write_feather(table, str(file), compression="uncompressed")
    elif kind == "orc":
        _orc.write_table(table, str(file))
    else:
        _pq.write_table(table, file)
    return file
