"""The HTTP handlers for progress reports, probes and metrics. These handlers don't change objects in the cluster."""

import logging
import time
from collections.abc import Callable
from datetime import datetime
from http import HTTPStatus
from typing import Final

from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from pydantic import ValidationError

from dataprep_api.dataset.messages import PROGRESS_LIMIT, PROGRESS_PATH, ProgressReply, ProgressReport
from dataprep_operator import metrics
from dataprep_operator.cluster.ratelimit import TokenBucket
from dataprep_operator.errors import ReportRefused
from dataprep_operator.informer.cache import Cache
from dataprep_operator.objects import times
from dataprep_operator.objects.observed import Key
from dataprep_operator.server.probes import Health
from dataprep_operator.server.progress import LEAST_INTERVAL_SECONDS, REPORTS_A_SECOND, ProgressStore
from dataprep_operator.server.reviews import Reviewer
from dataprep_operator.server.tokens import Bearer, Verifier

logger = logging.getLogger(__name__)

LONGEST_TOKEN: Final = 8192
MOST_REPORTS_A_SECOND: Final = 3 * REPORTS_A_SECOND
MOST_REPORTS_AT_ONCE: Final = int(6 * REPORTS_A_SECOND)
"""This burst lets many workers start at the same time. Afterwards, the reply to each report says when to send the next report."""
SHOWN_SECONDS: Final = 1.0
"""How long rendered metrics are cached. Rendering is expensive because it counts all jobs."""


class Endpoint:
    """The routes of the HTTP server and their dependencies."""

    def __init__(
        self,
        *,
        cache: Cache,
        progress_store: ProgressStore,
        verifier: Verifier,
        health: Health,
        enqueue: Callable[[Key], None],
        reviewer: Reviewer | None = None,
        clock: Callable[[], datetime] = times.now,
    ) -> None:
        self._cache = cache
        self._progress_store = progress_store
        self._verifier = verifier
        self._health = health
        self._enqueue = enqueue
        self._reviewer = reviewer
        self._clock = clock
        self._limiter = TokenBucket(rate=MOST_REPORTS_A_SECOND, burst=MOST_REPORTS_AT_ONCE)
        self._last_rendering: tuple[float, bytes] | None = None
        """When the metrics were last rendered, and the result."""

    def application(self) -> web.Application:
        """Build the aiohttp application.

        Bodies over the limit are refused without being read, and each connection serves one request (see `gate.py`).
        """
        application = web.Application(client_max_size=PROGRESS_LIMIT)
        application.on_response_prepare.append(_close_connection)
        application.router.add_post(PROGRESS_PATH, self._progress)
        application.router.add_get("/healthz", self._healthz)
        application.router.add_get("/readyz", self._readyz)
        application.router.add_get("/metrics", self._metrics)
        return application

    async def _progress(self, request: web.Request) -> web.Response:
        try:
            reply = await self._accept(request)
        except ReportRefused as exc:
            metrics.REPORTS.labels(code=str(exc.status)).inc()
            return web.json_response({"error": str(exc)}, status=exc.status)
        metrics.REPORTS.labels(code="200").inc()
        return web.Response(text=reply.model_dump_json(by_alias=True), content_type="application/json")

    async def _accept(self, request: web.Request) -> ProgressReply:
        if not self._health.leading:
            raise ReportRefused(503, "not leader")
        if (request.content_length or 0) > PROGRESS_LIMIT:
            raise ReportRefused(413, f"a report may have at most {PROGRESS_LIMIT} bytes")
        # Rate-limit before verifying the signature, because verifying a signature costs more than sending a forged signature.
        if not self._limiter.allow():
            raise ReportRefused(429, "all workers together send too many reports")
        bearer = await self._verifier.bearer(_token(request))
        report = await _report(request)
        key, job_uid, step = self._job_of(bearer, report)
        if not self._progress_store.may_report(job_uid=job_uid, pod_uid=bearer.pod_uid):
            raise ReportRefused(429, f"{bearer.pod_name} reports too often; report at most every {LEAST_INTERVAL_SECONDS:.0f} s")
        now = self._clock()
        self._progress_store.record(report, job_uid=job_uid, pod_uid=bearer.pod_uid, now=now, step=step)
        self._enqueue(key)
        return self._progress_store.reply(report, job_uid=job_uid, pod_uid=bearer.pod_uid, now=now)

    def _job_of(self, bearer: Bearer, report: ProgressReport) -> tuple[Key, str, str]:
        """Return the key and uid of the job that the pod works for, and the pod's step.

        Raises ReportRefused if the token's pod isn't a converter pod, or doesn't belong to the job and attempt in the report.
        """
        pod = self._cache.pod(bearer.namespace, bearer.pod_name)
        if pod is None or pod.uid != bearer.pod_uid:
            raise ReportRefused(403, "the token's pod is not a pod of this operator")
        child = self._cache.child_of(pod)
        if child is None or child.step not in ("plan", "shuffle", "convert"):
            raise ReportRefused(403, "the token's pod is not a converter pod")
        key = Key(bearer.namespace, report.job)
        raw = self._cache.job(key)
        if raw is None or raw["metadata"]["uid"] != child.owner_uid:
            raise ReportRefused(403, f"the token's pod does not work for {report.job}")
        if report.attempt != child.attempt:
            raise ReportRefused(403, f"the token's pod works for attempt {child.attempt}, not {report.attempt}")
        # If a plan pod does the work of a small job, the work is a single task.
        status = raw.get("status") or {}
        tasks = 1 if child.step == "plan" else status.get("shuffleTasks" if child.step == "shuffle" else "tasks") or 0
        if report.index >= tasks:
            raise ReportRefused(400, f"task {report.index} does not exist; the job has {tasks}")
        return key, child.owner_uid, child.step

    async def _healthz(self, _: web.Request) -> web.Response:
        return _probe_response(self._health.fault())

    async def _readyz(self, _: web.Request) -> web.Response:
        return _probe_response(self._health.not_ready())

    async def _metrics(self, request: web.Request) -> web.Response:
        if self._reviewer is not None:
            try:
                await self._reviewer.check(_token(request))
            except ReportRefused as exc:
                return web.Response(text=f"{exc}\n", status=exc.status)
        now = time.monotonic()
        if self._last_rendering is None or now - self._last_rendering[0] >= SHOWN_SECONDS:
            self._last_rendering = now, self._render_metrics()
        return web.Response(body=self._last_rendering[1], headers={"Content-Type": CONTENT_TYPE_LATEST})

    def _render_metrics(self) -> bytes:
        if self._health.streams is not None:
            metrics.WATCH_AGE.set(self._health.streams.age_seconds)
        metrics.LEADER.set(1 if self._health.leading else 0)
        # A standby also has the jobs in its cache, but only the leader counts the jobs.
        cache = self._cache if self._health.leading else Cache()
        metrics.RATE.set(cache.records_per_second())
        for phase, count in cache.phases().items():
            metrics.JOBS.labels(phase=phase).set(count)
        return generate_latest(metrics.REGISTRY)


def _token(request: web.Request) -> str:
    scheme, _, token = request.headers.get("Authorization", "").partition(" ")
    if scheme.lower() != "bearer" or not token.strip() or len(token) > LONGEST_TOKEN:
        raise ReportRefused(401, "a bearer token is required")
    return token.strip()


async def _report(request: web.Request) -> ProgressReport:
    try:
        # Ignore unknown fields, because a newer converter may report additional fields.
        return ProgressReport.model_validate_json(await request.read(), extra="ignore")
    except web.HTTPRequestEntityTooLarge as exc:
        raise ReportRefused(413, f"a report may have at most {PROGRESS_LIMIT} bytes") from exc
    except ValidationError as exc:
        raise ReportRefused(400, f"not a progress report: {exc.errors()[0]['loc']}: {exc.errors()[0]['msg']}") from exc


async def _close_connection(_: web.Request, response: web.StreamResponse) -> None:
    response.force_close()
    response.headers["Connection"] = "close"


def _probe_response(fault: str | None) -> web.Response:
    if fault is None:
        return web.Response(text="ok\n")
    logger.warning("probe: %s", fault)
    return web.Response(text=fault + "\n", status=HTTPStatus.SERVICE_UNAVAILABLE)
