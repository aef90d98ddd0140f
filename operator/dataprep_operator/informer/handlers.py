"""kopf's event handlers, which update the cache and enqueue the affected jobs.

Only `on.event` is used here. kopf's stateful handlers annotate objects and add finalizers, and under load they have run more than once per
change.
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
from dataprep_operator.objects import job_steps, untrusted
from dataprep_operator.objects.observed import Key
from dataprep_operator.settings import Settings

_ACCOUNT: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")

# Delays in seconds. Many pods often change at the same time, so a short delay lets one reconcile handle all of them.
_DELAYS: Final = {Kind.DATAPREPJOBS: 0.0, Kind.DATAPREPCRONJOBS: 0.0, Kind.DATAPREPPROFILES: 0.0, Kind.JOBS: 0.0, Kind.PODS: 0.2}


def registry(*, cache: Cache, streams: Streams, enqueue: Callable[[Key, float], None]) -> kopf.OperatorRegistry:
    """Return a registry with the handlers of all watched kinds."""
    handlers = kopf.OperatorRegistry()

    handle = functools.partial(_handle, cache=cache, streams=streams, enqueue=enqueue)

    @kopf.on.event(GROUP, VERSION, PLURAL, registry=handlers)
    async def data_prep_job(event: Any, **_: Any) -> None:
        handle(Kind.DATAPREPJOBS, event)

    @kopf.on.event(GROUP, VERSION, CRON_PLURAL, registry=handlers)
    async def data_prep_cron_job(event: Any, **_: Any) -> None:
        handle(Kind.DATAPREPCRONJOBS, event)

    @kopf.on.event(GROUP, VERSION, PROFILE_PLURAL, registry=handlers)
    async def data_prep_profile(event: Any, **_: Any) -> None:
        handle(Kind.DATAPREPPROFILES, event)

    @kopf.on.event("batch", "v1", "jobs", registry=handlers)
    async def child_job(event: Any, **_: Any) -> None:
        handle(Kind.JOBS, event)

    @kopf.on.event("", "v1", "pods", registry=handlers)
    async def pod(event: Any, **_: Any) -> None:
        handle(Kind.PODS, event)

    kopf.on.login(registry=handlers)(login)
    return handlers


# Any, because kopf's event is a JSON object of the API.
def _handle(kind: Kind, event: Any, *, cache: Cache, streams: Streams, enqueue: Callable[[Key, float], None]) -> None:
    """Apply an event to the cache and enqueue the affected jobs. About half of all events change no field that the operator reads."""
    raw = event["object"]
    try:
        if event["type"] == "DELETED":
            key = cache.drop(kind, raw)
        else:
            has_changed = cache.put(kind, raw) or event["type"] != "MODIFIED"
            key = cache.key_of(kind, raw) if has_changed else None
    finally:
        # This line also runs if the object is malformed, so that the initial sync doesn't wait for the object.
        streams.mark_cached(kind, raw["metadata"]["uid"])
    others = cache.dependents(raw) if kind is Kind.DATAPREPJOBS else []
    if kind is Kind.DATAPREPPROFILES:
        others = cache.not_started(raw["metadata"]["namespace"])
    for affected_key in [*([key] if key is not None else []), *others]:
        enqueue(affected_key, 0.0 if kind is Kind.PODS and _ends_the_plan(raw) else _DELAYS[kind])


# Any, because a pod is a JSON object of the API.
def _ends_the_plan(pod: Any) -> bool:
    """Return whether the pod has finished the plan step or the merge step. Other pods can't start before this step is finished."""
    labels, status = untrusted.mapping(pod["metadata"].get("labels")), untrusted.mapping(pod.get("status"))
    return job_steps.plans(untrusted.text(labels.get(names.LABEL_STEP))) and status.get("phase") == "Succeeded"


def operator_settings(settings: Settings) -> kopf.OperatorSettings:
    """Return kopf's settings. This function sets only settings that differ from kopf's defaults."""
    kopf_settings = kopf.OperatorSettings()
    # kopf's scanning needs permissions on CRDs and namespaces. It isn't needed to notice a missing CRD, because the operator checks the
    # CRDs at startup.
    kopf_settings.scanning.disabled = True
    # The leader is elected through a Lease. kopf's peering, in contrast, pauses all replicas that have the same priority.
    kopf_settings.peering.standalone = True
    # kopf's own Events are disabled, because the actuator records and deduplicates Events.
    kopf_settings.posting.enabled = False
    selector = f"{names.LABEL_CLASS}={settings.operator_class}" if settings.operator_class else f"!{names.LABEL_CLASS}"
    for plural in (PLURAL, CRON_PLURAL):
        kopf_settings.watching.label_selectors[GROUP, VERSION, plural] = selector
    kopf_settings.watching.label_selectors["batch", "v1", "jobs"] = names.SELECTOR
    kopf_settings.watching.label_selectors["", "v1", "pods"] = names.SELECTOR
    kopf_settings.watching.connect_timeout = 30
    kopf_settings.watching.server_timeout = 600
    kopf_settings.watching.client_timeout = 620
    kopf_settings.watching.reconnect_backoff = 1.0
    kopf_settings.watching.chunk_size = 500
    kopf_settings.networking.request_timeout = 30
    kopf_settings.networking.connect_timeout = 10
    kopf_settings.networking.enforce_retry_after = True
    # `streams.py` restarts failed streams, and kopf's back-off would only delay these restarts.
    kopf_settings.networking.error_backoffs = (0.5, 1, 2, 3, 5)
    kopf_settings.persistence.consistency_timeout = 60
    kopf_settings.execution.max_workers = 8
    kopf_settings.process.ultimate_exiting_timeout = 30
    return kopf_settings


def expected_streams(settings: Settings) -> frozenset[StreamName]:
    """Return the names of the streams that kopf opens, one for each kind and namespace."""
    return frozenset((kind, namespace) for kind in Kind for namespace in (settings.namespaces or (None,)))


# Any, because kopf passes its own settings and further arguments.
async def login(settings: Any, **rest: Any) -> kopf.ConnectionInfo | None:
    """Return the connection to the cluster of `KUBECONFIG`, or, if this variable isn't set, to the cluster in which this pod runs.

    In a pod, kopf uses the pod's service account, and addresses the API server by its IP address, so that the connection doesn't depend on
    DNS.
    """
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
