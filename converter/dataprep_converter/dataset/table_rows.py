"""Checks the rows of a manifest's table. If someone has edited the table, the manifest and `_SUCCESS`, values may be null, or a path may lead
out of the data set's folder."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

import pyarrow as pa

from dataprep_api import names
from dataprep_converter.core.errors import NotWhole
from dataprep_converter.core.tensors import pc
from dataprep_converter.dataset.manifest_paths import VISIBLE_PATH

_REQUIRED: Final = ("file", "split", "records", "size", "sha256", "rawSha256", "companions")
_SHOWN: Final = 80


def check_rows(batches: Sequence[pa.RecordBatch], run_id: str, uri: str) -> None:
    """Raises NotWhole for a value that can't be in the table of this run. `uri` is the table's URI."""
    for batch in batches:
        for fault in _faults(batch, f"{names.quarantine_folder(run_id)}/"):
            raise NotWhole(f"{uri} was not written by dataprep: {fault}.", uri=uri)


def _faults(batch: pa.RecordBatch, quarantine: str) -> Iterator[str]:
    batch.validate(full=True)
    companions: Any = batch.column("companions")
    fields = companions.flatten().flatten()
    has_null = [name for name in _REQUIRED if batch.column(name).null_count]
    if not has_null and any(array.null_count for array in (companions.flatten(), *fields)):
        has_null = ["companions"]
    if pc.any(pc.xor(batch.column("indexSize").is_valid(), batch.column("indexSha256").is_valid())).as_py():
        has_null.append("indexSize or indexSha256")
    yield from (f"the column {name} has a null that dataprep doesn't write" for name in has_null)
    for name, paths in (("file", batch.column("file")), ("companions", fields[0])):
        yield from _bad_paths(
            name, pc.filter(paths, pc.invert(pc.match_substring_regex(paths, f"^{names.VISIBLE.pattern}$"))), VISIBLE_PATH
        )
    kept: Iterable[Any] = batch.column("quarantine").drop_null().to_pylist()
    outside = (path for path in kept if not names.is_inside(path, quarantine))
    yield from _bad_paths("quarantine", outside, f"a file in {quarantine.rstrip('/')}")


def _bad_paths(column: str, paths: Iterable[Any], expected: str) -> Iterator[str]:
    yield from (f"the column {column} has {str(path)[:_SHOWN]!r}, expected {expected}" for path in paths)
