"""Reads ownerReferences. Pure."""

from collections.abc import Mapping
from typing import Any

from dataprep_api import KIND
from dataprep_operator.objects import untrusted


def controller(raw: Mapping[str, Any]) -> Mapping[str, Any]:
    """The controller's ownerReference, or an empty mapping."""
    return next((owner for owner in untrusted.mappings(raw["metadata"].get("ownerReferences")) if owner.get("controller")), {})


def owned_by(raw: Mapping[str, Any], *, uid: str) -> bool:
    """Whether the DataPrepJob with that uid controls the object."""
    owner = controller(raw)
    return owner.get("kind") == KIND and owner.get("uid") == uid
