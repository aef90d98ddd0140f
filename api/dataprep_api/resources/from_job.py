"""Replaces `source.fromJob` with `source.dataset` when the other job is Complete. The converter supports only `source.dataset`."""

from collections.abc import Mapping
from typing import Any

from dataprep_api.resources.status import FromJob


# The values have the type Any, because both specs are parsed JSON.
def resolve(spec: Mapping[str, Any], from_job: FromJob | None) -> dict[str, Any]:
    """Return the spec with `fromJob` replaced by the other job's data set. Returns an unchanged copy if the spec has no `fromJob`."""
    source = spec.get("source") or {}
    if from_job is None or "fromJob" not in source:
        return dict(spec)
    # In this URI, the other job's params are already filled in, so the remaining dollar signs are literal and must be escaped.
    dataset = {"uri": from_job.uri.replace("$", "$$")} | ({"digest": from_job.digest} if from_job.digest else {})
    split = source["fromJob"].get("split")
    return {**spec, "source": {"dataset": dataset}} | ({"splits": _restrict_splits(spec.get("splits"), split)} if split else {})


def _restrict_splits(splits: Mapping[str, Any] | None, split: str) -> dict[str, Any]:
    """Return the job's splits, each limited to one split of the other job."""
    if not splits:
        return {"into": [{"name": split, "subset": split}]}
    return {**splits, "into": [{**entry, "subset": split} for entry in splits["into"]]}
