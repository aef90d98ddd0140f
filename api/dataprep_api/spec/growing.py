"""`overwrite: Extend`: what keeps a data set from growing. Old records must stay where they are, so nothing may hang on how many there are."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from dataprep_api.spec import DataPrepJobSpec

_WHOLE: Final = ("join", "sql", "table", "dataset", "from_job")
"""Sources that are one thing, of which nobody can tell which records are new."""


def faults(spec: "DataPrepJobSpec") -> Iterator[str]:
    """Why the data set of this spec can't be extended, in words; nothing when it can."""
    if spec.source is None:
        yield "a script's data set can't be extended"
    elif spec.source.kind in _WHOLE:
        yield f"of source.{type(spec.source).model_fields[spec.source.kind].alias or spec.source.kind} nobody can tell which records are new"
    if spec.limit is not None:
        yield "limit chooses among all records, and would choose others"
    if spec.deduplicate is not None:
        yield "deduplicate compares all records with each other"
    rules = spec.splits
    if rules is None:
        return
    if rules.exact:
        yield "splits.exact cuts by the number of records, which would move them; leave it out, and each record stays in its split"
    if rules.stratify_by is not None:
        yield "splits.stratifyBy cuts by the number of records of each class, which would move them"
    for split in rules.into:
        for name in ("first", "count"):
            if getattr(split, name) is not None:
                yield f"the split {split.name!r} takes a number of records ({name}), and with more of them it would take others"
