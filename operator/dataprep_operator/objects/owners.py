"""Reads owner references. All functions are pure."""

from collections.abc import Mapping
from typing import Any

from dataprep_api import KIND
from dataprep_operator.objects import untrusted


def controller(raw: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the owner reference of the object's controller, or an empty mapping."""
    return next((owner for owner in untrusted.mappings(raw["metadata"].get("ownerReferences")) if owner.get("controller")), {})


def job_owner(raw: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the reference to the DataPrepJob that the object belongs to, or an empty mapping.

    The DataPrepJob is the controller of its objects, except for the Jobs of steps that run within the quota of a queue Job. While the queue
    Job exists, the queue Job is the controller of these Jobs, and the DataPrepJob is another owner.
    """
    owner = controller(raw)
    if owner.get("kind", "Job") == "Job":
        owners = untrusted.mappings(raw["metadata"].get("ownerReferences"))
        owner = next((other for other in owners if other.get("kind") == KIND), {})
    return owner if owner.get("kind") == KIND else {}


def owned_by(raw: Mapping[str, Any], *, uid: str) -> bool:
    """Return whether the object belongs to the DataPrepJob with this uid."""
    return job_owner(raw).get("uid") == uid
