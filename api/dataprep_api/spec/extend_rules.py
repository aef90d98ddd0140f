"""`overwrite: Extend`: finds settings that prevent a data set from being extended.

When a data set is extended, existing records must keep their shard and split, so no setting may depend on the number of records.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from dataprep_api.spec import DataPrepJobSpec

_UNDIVIDED_SOURCES: Final = ("join", "sql", "table", "dataset", "from_job")
"""Sources without separate files. In these sources, new records can't be distinguished from old records."""


def faults(spec: "DataPrepJobSpec") -> Iterator[str]:
    """Yield a message for each reason why the data set of this spec can't be extended."""
    if spec.source is None:
        yield "a script's data set can't be extended"
    elif spec.source.kind in _UNDIVIDED_SOURCES:
        yield f"source.{type(spec.source).model_fields[spec.source.kind].alias or spec.source.kind} doesn't show which records are new"
    if spec.limit is not None:
        yield "limit chooses from all records, so new records would change the selection"
    if spec.deduplicate is not None:
        yield "deduplicate compares all records with each other"
    rules = spec.splits
    if rules is None:
        return
    if rules.exact:
        yield "splits.exact depends on the number of records, so new records would move existing records to different splits; without exact, each record stays in its split"
    if rules.stratify_by is not None:
        yield "splits.stratifyBy depends on the number of records of each class, so new records would move existing records to different splits"
    for split in rules.into:
        for name in ("first", "count"):
            if getattr(split, name) is not None:
                yield f"the split {split.name!r} takes a number of records ({name}), so new records would change the selection"
