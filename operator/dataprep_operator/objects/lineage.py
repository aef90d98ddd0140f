"""The names of a job's runs in OpenLineage events.

The operator and the pods use the same names, because they send events about the same run.
"""

import uuid
from collections.abc import Mapping
from typing import Final

from dataprep_api.lineage import sending
from dataprep_api.names import LINEAGE_RUN
from dataprep_operator.objects.observed import Key

_RUNS: Final = uuid.UUID("6f1b8f2e-6d7c-5d0a-9f0e-5c1f2a7d4b11")
"""The namespace of the UUIDs of runs. It never changes."""


def run_uuid(uid: str, attempt: int) -> str:
    """Return the UUID of one attempt of the job with this uid. Each attempt is a run."""
    return str(uuid.uuid5(_RUNS, f"{uid}/{attempt}"))


def namespace_of(receiver: sending.Receiver, key: Key) -> str:
    """Return the namespace of the job in events. This is the namespace in the settings, or else the job's own namespace."""
    return receiver.namespace or key.namespace


def variables(receiver: sending.Receiver | None, key: Key, *, uid: str, attempt: int) -> Mapping[str, str]:
    """Return the environment variables that let a pod send events about the same run. They don't include the receiver's key."""
    if receiver is None:
        return {}
    return {
        sending.URL: receiver.url,
        sending.ENDPOINT: receiver.endpoint,
        sending.NAMESPACE: namespace_of(receiver, key),
        LINEAGE_RUN: run_uuid(uid, attempt),
    }
