"""What kopf does for us: it watches DataPrepJobs, DataPrepCronJobs and DataPrepProfiles, our Jobs and our pods. Its handlers fill the cache and name whom it concerns.

Only `on.event`: kopf's stateful handlers annotate the objects, want finalizers, and were measured to run several times under load.
"""

import functools
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import kopf

from dataprep_api import CRON_PLURAL, GROUP, PLURAL, PROFILE_PLURAL, VERSION, names
from dataprep_operator.informer.cache import Cache, Kind
from dataprep_operator.informer.streams import StreamName, Streams
from dataprep_operator.objects import untrusted
from dataprep_operator.objects.observed import Key
from dataprep_operator.settings import Settings

_ACCOUNT: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")

# Seconds: what concerns a job directly is looked at now; pods come in crowds and are looked at together.
_DELAYS: Final = {Kind.DATAPREPJOBS: 0.0, Kind.DATAPREPCRONJOBS: 0.0, Kind.DATAPREPPROFILES: 0.0, Kind.JOBS: 0.0, Kind.PODS: 0.2}


def registry(*, cache: Cache, streams: Streams, enqueue: Callable[[Key, float], None]) -> kopf.OperatorRegistry:
    """The handlers."""
    handlers = kopf.OperatorRegistry()

    take = functools.partial(_take, cache=cache, streams=streams, enqueue=enqueue)

    @kopf.on.event(GROUP, VERSION, PLURAL, registry=handlers)
    async def data_prep_job(event: Any, **_: Any) -> None:
        take(Kind.DATAPREPJOBS, event)

    @kopf.on.event(GROUP, VERSION, CRON_PLURAL, registry=handlers)
    async def data_prep_cron_job(event: Any, **_: Any) -> None:
        take(Kind.DATAPREPCRONJOBS, event)

    @kopf.on.event(GROUP, VERSION, PROFILE_PLURAL, registry=handlers)
    async def data_prep_profile(event: Any, **_: Any) -> None:
        take(Kind.DATAPREPPROFILES, event)

    @kopf.on.event("batch", "v1", "jobs", registry=handlers)
    async def child_job(event: Any, **_: Any) -> None:
        take(Kind.JOBS, event)

    @kopf.on.event("", "v1", "pods", registry=handlers)
    async def pod(event: Any, **_: Any) -> None:
        take(Kind.PODS, event)

    kopf.on.login(registry=handlers)(login)
    return handlers


# Any: kopf's event is the API's JSON.
def _take(kind: Kind, event: Any, *, cache: Cache, streams: Streams, enqueue: Callable[[Key, float], None]) -> None:
    """Put what an event tells into the cache, and name everybody whom it concerns: half of all events are of what nobody reads."""
    raw = event["object"]
    try:
        if event["type"] == "DELETED":
            key = cache.drop(kind, raw)
        else:
            is_news = cache.put(kind, raw) or event["type"] != "MODIFIED"
            key = cache.key_of(kind, raw) if is_news else None
    finally:
        # Whatever one object says, the others don't wait for it.
        streams.mark_cached(kind, raw["metadata"]["uid"])
    others = cache.dependents(raw) if kind is Kind.DATAPREPJOBS else []
    if kind is Kind.DATAPREPPROFILES:
        others = cache.not_started(raw["metadata"]["namespace"])
    for each in [*([key] if key is not None else []), *others]:
        enqueue(each, 0.0 if kind is Kind.PODS and _ends_the_plan(raw) else _DELAYS[kind])


# Any: the API's JSON.
def _ends_the_plan(pod: Any) -> bool:
    """Whether workers wait for nothing but this pod, which has ended."""
    labels, status = untrusted.mapping(pod["metadata"].get("labels")), untrusted.mapping(pod.get("status"))
    return labels.get(names.LABEL_STEP) == "plan" and status.get("phase") == "Succeeded"


def operator_settings(settings: Settings) -> kopf.OperatorSettings:
    """kopf's settings. Each differs from the default for a reason."""
    chosen = kopf.OperatorSettings()
    # Rights on CRDs and namespaces aren't needed: our kinds are known, and their presence is checked before the start.
    chosen.scanning.disabled = True
    # Leadership is a Lease's; kopf's own peering pauses all replicas of one priority.
    chosen.peering.standalone = True
    # Events are told by `actuator.py`, deduplicated.
    chosen.posting.enabled = False
    of_the_class = f"{names.LABEL_CLASS}={settings.operator_class}" if settings.operator_class else f"!{names.LABEL_CLASS}"
    for plural in (PLURAL, CRON_PLURAL):
        chosen.watching.label_selectors[GROUP, VERSION, plural] = of_the_class
    chosen.watching.label_selectors["batch", "v1", "jobs"] = names.SELECTOR
    chosen.watching.label_selectors["", "v1", "pods"] = names.SELECTOR
    chosen.watching.connect_timeout = 30
    chosen.watching.server_timeout = 600
    chosen.watching.client_timeout = 620
    chosen.watching.reconnect_backoff = 1.0
    chosen.watching.chunk_size = 500
    chosen.networking.request_timeout = 30
    chosen.networking.connect_timeout = 10
    chosen.networking.enforce_retry_after = True
    # A stream that fails begins anew by itself (`streams.py`); until then it only delays what is said about it.
    chosen.networking.error_backoffs = (0.5, 1, 2, 3, 5)
    chosen.persistence.consistency_timeout = 60
    chosen.execution.max_workers = 8
    chosen.process.ultimate_exiting_timeout = 30
    return chosen


def expected_streams(settings: Settings) -> frozenset[StreamName]:
    """The streams that kopf will open: one for each kind and namespace."""
    return frozenset((kind, namespace) for kind in Kind for namespace in (settings.namespaces or (None,)))


# Any: kopf's settings and whatever else it passes.
async def login(settings: Any, **rest: Any) -> kopf.ConnectionInfo | None:
    """Where the API server is: `KUBECONFIG`, else this pod's account. By address, so that no DNS is needed."""
    if os.environ.get("KUBECONFIG"):
        return kopf.login_with_kubeconfig(settings=settings, **rest)
    host, port = os.environ["KUBERNETES_SERVICE_HOST"], os.environ.get("KUBERNETES_SERVICE_PORT", "443")
    return kopf.ConnectionInfo(
        server=f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}",
        ca_path=str(_ACCOUNT / "ca.crt"),
        token=(_ACCOUNT / "token").read_text().strip(),
        default_namespace=(_ACCOUNT / "namespace").read_text().strip(),
        trust_env=False,
    )
