"""Reads owner references. All functions are pure."""

from collections.abc import Mapping
from typing import Any

from dataprep_api import KIND
from dataprep_operator.objects import untrusted


def controller(raw: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the owner reference of the object's controller, or an empty mapping."""
    return next((owner for owner in untrusted.mappings(raw["metadata"].get("ownerReferences")) if owner.get("controller")), {})


def owned_by(raw: Mapping[str, Any], *, uid: str) -> bool:
    """Return whether the DataPrepJob with this uid controls the object."""
    owner = controller(raw)
    return owner.get("kind") == KIND and owner.get("uid") == uid
