"""Builds the names, labels and owner references of a DataPrepJob's children. All functions are pure."""

from collections.abc import Mapping
from typing import Any

from dataprep_api import API_VERSION, KIND, names
from dataprep_operator.objects.child_jobs import CLEANUP
from dataprep_operator.objects.observed import Observed

Body = dict[str, Any]


def child_name(observed: Observed, step: str, attempt: int) -> str:
    """Return a child Job's name, as in `<base>-plan`, `<base>-plan-2`, `<base>-scan-1`, `<base>-convert-1` or `<base>-cleanup`."""
    base = observed.child_prefix
    return f"{base}-{step}" if step in ("plan", CLEANUP) and attempt <= 1 else f"{base}-{step}-{attempt}"


def spec_config_map_name(observed: Observed) -> str:
    """Return the name of the ConfigMap with the spec."""
    return f"{observed.child_prefix}-spec"


def owned_metadata(observed: Observed, own_name: str, *, labels: Mapping[str, str], annotations: Mapping[str, str] | None = None) -> Body:
    """Return the metadata of an object that is deleted with the job."""
    return {
        "name": own_name,
        "namespace": observed.key.namespace,
        "labels": dict(labels),
        **({"annotations": dict(annotations)} if annotations else {}),
        # When the job is deleted, the garbage collector deletes this object too. The output in the store stays.
        "ownerReferences": [{"apiVersion": API_VERSION, "kind": KIND, "name": observed.key.name, "uid": observed.uid, "controller": True}],
    }


def owned_labels(observed: Observed, *, step: str | None = None, attempt: int = 0) -> dict[str, str]:
    """Return the labels of an object that belongs to the job."""
    common = {
        names.LABEL_MANAGED_BY: names.MANAGED_BY,
        names.LABEL_JOB: names.label_value(observed.key.name),
        names.LABEL_JOB_UID: observed.uid,
    }
    return common | ({names.LABEL_STEP: step, names.LABEL_ATTEMPT: str(attempt)} if step else {})
