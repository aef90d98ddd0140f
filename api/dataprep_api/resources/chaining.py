"""`source.fromJob` as what it stands for once the other job is Complete: `source.dataset`. The converter knows only the latter."""

from collections.abc import Mapping
from typing import Any

from dataprep_api.resources.status import FromJob


# Any: the spec as the user stored it, and as the run sees it.
def resolved(spec: Mapping[str, Any], found: FromJob | None) -> dict[str, Any]:
    """The spec with the other job's data set in the place of `fromJob`; as it is when there is none."""
    source = spec.get("source") or {}
    if found is None or "fromJob" not in source:
        return dict(spec)
    # The uri has its params filled in already; what is left of dollar signs is meant.
    dataset = {"uri": found.uri.replace("$", "$$")} | ({"digest": found.digest} if found.digest else {})
    split = source["fromJob"].get("split")
    return {**spec, "source": {"dataset": dataset}} | ({"splits": _narrowed(spec.get("splits"), split)} if split else {})


def _narrowed(splits: Mapping[str, Any] | None, split: str) -> dict[str, Any]:
    """The job's splits, all of them parts of one split of the other job."""
    if not splits:
        return {"into": [{"name": split, "subset": split}]}
    return {**splits, "into": [{**entry, "subset": split} for entry in splits["into"]]}
