"""The `dataprep-operator` command: read the settings, check that the CRDs are installed, wait for the Lease, and lead."""

import argparse
import asyncio
import contextlib
import functools
import logging
import os
import sys
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Sequence
from dataclasses import replace
from typing import Final

from aiohttp import web

from dataprep_api import CRON_KIND, KIND, tracing
from dataprep_api.log_lines import JsonLines, PlainLines
from dataprep_api.redaction import one_line
from dataprep_operator import settings as settings_module
from dataprep_operator.cluster.clock import Clock
from dataprep_operator.cluster.cluster import KubernetesCluster
from dataprep_operator.errors import LeaseLost, NotServed, OperatorError, Overlap, Unavailable
from dataprep_operator.informer import handlers, log_context
from dataprep_operator.informer.cache import Cache
from dataprep_operator.informer.streams import Streams
from dataprep_operator.informer.workqueue import WorkQueue
from dataprep_operator.leadership.controller import lead, stop_by_signals, watch
from dataprep_operator.leadership.election import LeaderElector
from dataprep_operator.objects.observed import Key
from dataprep_operator.reconcilers.cron_job import CronReconciler
from dataprep_operator.reconcilers.job import Reconciler
from dataprep_operator.reconcilers.lineage import LineageRecorder
from dataprep_operator.server.endpoint import Endpoint
from dataprep_operator.server.gate import BACKLOG, Gate
from dataprep_operator.server.probes import Health
from dataprep_operator.server.progress import ProgressStore
from dataprep_operator.server.reviews import Reviewer
from dataprep_operator.server.tokens import Verifier
from dataprep_operator.settings import Settings

logger = logging.getLogger("dataprep_operator")

START_TRIES: Final = 10
START_WAIT_SECONDS: Final = 3.0
OVERLAP_EXIT_CODE: Final = 4
UNSYNCED_SECONDS: Final = 1.0
SHUTDOWN_SECONDS: Final = 15.0
"""Seconds after which a shutdown counts as hung. This is shorter than the pod's grace period, and longer than any request takes."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the operator and return its exit code.

    The exit codes are: 0 stopped, 1 failed or lost the Lease, 2 bad settings, 3 CRD missing, 4 overlaps with another release.
    """
    parser = argparse.ArgumentParser(prog="dataprep-operator", description="Runs DataPrepJobs. Settings come from DATAPREP_… variables.")
    parser.add_argument(
        "--namespace", "-n", action="append", default=[], help="watch this namespace only (repeatable; DATAPREP_NAMESPACES)"
    )
    parser.add_argument("--port", type=int, help="port of the status endpoint (DATAPREP_LISTEN_PORT)")
    options = parser.parse_args(arguments)
    try:
        settings = settings_module.from_environment()
    except ValueError as exc:
        sys.stderr.write(f"dataprep-operator: {one_line(str(exc))}\n")
        return 2
    settings = replace(
        settings,
        namespaces=tuple(options.namespace) or settings.namespaces,
        listen_port=settings.listen_port if options.port is None else options.port,
    )
    _set_up_logging(settings)
    tracing.set_up("dataprep-operator")
    try:
        asyncio.run(serve(settings))
    except NotServed as exc:
        logger.error("%s", exc)
        return 3
    except Overlap as exc:
        logger.error("%s", exc)
        return OVERLAP_EXIT_CODE
    except (LeaseLost, OperatorError) as exc:
        logger.error("%s", exc)
        return 1
    except Exception:  # the logger redacts credentials in the message; a bare traceback would show them
        logger.exception("unexpected error; the operator stops")
        return 1
    finally:
        tracing.shut_down()
    return 0


async def serve(settings: Settings) -> None:
    """Run the operator until it receives SIGINT or SIGTERM, or until its watches end."""
    stop = asyncio.Event()
    stop_by_signals(stop)
    clock = Clock()
    connect = functools.partial(KubernetesCluster.connect, qps=settings.qps, burst=settings.burst)
    elector = None
    if settings.lease_namespace is not None:
        elector = LeaderElector(connect=connect, settings=settings, clock=clock, lost=_exit_without_lease)
    cluster = await connect(clock=clock, may_write=lambda: elector is None or elector.is_leader)
    cache, progress_store = Cache(), ProgressStore()
    queue = WorkQueue[Key](high_priority=cache.is_new, low_priority=cache.has_succeeded)

    def enqueue(key: Key, seconds: float = 0.0) -> None:
        if health.leading:  # any other replica enqueues everything when it becomes the leader
            queue.add_after(key, seconds)

    streams = Streams(expected=handlers.expected_streams(settings), cache=cache, enqueue=enqueue)
    health = Health(age_limit_seconds=settings.watch_age_limit_seconds, streams=streams)
    endpoint = _build_endpoint(settings, cluster, cache, progress_store, health, queue)
    lineage = LineageRecorder(settings.pods.lineage)
    reconcile = _build_reconcile(settings, cluster, cache, progress_store, streams, lineage)
    # This task is started before kopf's tasks, so that kopf doesn't cancel it.
    shutdown_limit = asyncio.create_task(_limit_shutdown(stop))
    try:
        await _check_served(cluster)
        async with _listen(endpoint.application(), settings):
            watching = asyncio.create_task(
                watch(settings=settings, cache=cache, streams=streams, enqueue=enqueue, stop=stop, died=_exit_without_watches)
            )
            # A replica without watches is useless, whether it is the leader or not.
            watching.add_done_callback(lambda _: stop.set())
            leadership = lead(settings=settings, cache=cache, streams=streams, queue=queue, reconcile=reconcile, health=health, stop=stop)
            try:
                await _lead_when_elected(leadership, elector=elector, streams=streams, stop=stop)
            finally:
                stop.set()
                await watching
    finally:
        shutdown_limit.cancel()
        if elector is not None:
            await elector.end()
        await cluster.close()
        await asyncio.to_thread(lineage.close)


def _build_endpoint(
    settings: Settings, cluster: KubernetesCluster, cache: Cache, progress_store: ProgressStore, health: Health, queue: WorkQueue[Key]
) -> Endpoint:
    return Endpoint(
        cache=cache,
        progress_store=progress_store,
        verifier=Verifier(cluster.document, issuer=settings.token_issuer),
        health=health,
        # The reconcile is delayed, so that all reports arriving between two status writes cause only one reconcile.
        enqueue=lambda key: queue.add_after(key, settings.progress_seconds),
        reviewer=Reviewer(cluster) if settings.metrics_authentication else None,
        clock=cluster.clock,
    )


def _build_reconcile(
    settings: Settings,
    cluster: KubernetesCluster,
    cache: Cache,
    progress_store: ProgressStore,
    streams: Streams,
    lineage: LineageRecorder,
) -> Callable[[Key], Awaitable[float | None]]:
    by_kind = {
        KIND: Reconciler(
            cache=cache, cluster=cluster, progress_store=progress_store, settings=settings, clock=cluster.clock, lineage=lineage
        ).reconcile,
        CRON_KIND: CronReconciler(cache=cache, cluster=cluster, clock=cluster.clock).reconcile,
    }

    async def reconcile(key: Key) -> float | None:
        if streams.is_synced(key.namespace):
            return await by_kind[key.kind](key)
        return UNSYNCED_SECONDS if cache.knows(key) else None

    return reconcile


async def _limit_shutdown(stop: asyncio.Event) -> None:
    """Exit if the shutdown hangs. A clean shutdown takes a second or two."""
    await stop.wait()
    watchdog = threading.Timer(SHUTDOWN_SECONDS, _give_up)
    watchdog.daemon = True
    watchdog.start()


def _give_up() -> None:
    logger.error("shutdown took more than %.0f s; exiting now", SHUTDOWN_SECONDS)
    _exit_now()


def _exit_without_watches(task: str, error: BaseException | None) -> None:
    """Exit, because the operator can do nothing without its watches. Another replica takes over when the Lease expires."""
    logger.error("kopf's task %r has ended: %s; this replica stops", task, repr(error) if error is not None else "no error")
    _exit_now()


def _exit_now(code: int = 1) -> None:
    logging.shutdown()
    os._exit(code)


async def _check_served(cluster: KubernetesCluster) -> None:
    """Raise NotServed if a CRD is missing. If the API server can't be reached, retry for a while."""
    for tries_left in reversed(range(START_TRIES)):
        try:
            await cluster.check_served()
        except Unavailable as exc:
            if not tries_left:
                raise
            logger.warning("the API server can't be reached yet: %s", exc)
            await asyncio.sleep(START_WAIT_SECONDS)
        else:
            return


@contextlib.asynccontextmanager
async def _listen(application: web.Application, settings: Settings) -> AsyncIterator[int]:
    """Serve `application` within the context. Yields the port."""
    runner = web.AppRunner(application, access_log=None)
    await runner.setup()
    assert runner.server is not None  # noqa: S101 - set by setup()
    factory = Gate().wrap(runner.server)
    server = await asyncio.get_running_loop().create_server(factory, settings.listen_host, settings.listen_port, backlog=BACKLOG)
    port = server.sockets[0].getsockname()[1]
    logger.info("listening on %s:%d", settings.listen_host, port)
    try:
        yield port
    finally:
        server.close()
        await runner.cleanup()


async def _lead_when_elected(
    leadership: Coroutine[None, None, None], *, elector: LeaderElector | None, streams: Streams, stop: asyncio.Event
) -> None:
    """Wait until this replica is elected, and then await `leadership`. Without an elector, await `leadership` immediately."""
    if elector is None:
        await leadership
        return
    acquiring, stopping = asyncio.create_task(_acquire(elector, streams)), asyncio.create_task(stop.wait())
    try:
        await asyncio.wait({acquiring, stopping}, return_when=asyncio.FIRST_COMPLETED)
        stopping.cancel()
        # When kopf exits, it cancels every task that was started after kopf's own tasks, so `acquiring` may have been cancelled.
        if not acquiring.done() or acquiring.cancelled():
            acquiring.cancel()
            leadership.close()
            return
        if acquiring.exception() is not None:
            leadership.close()
        acquiring.result()
        await leadership
    finally:
        # Release the Lease before anything else stops, so that another replica can take over immediately.
        await elector.end()


async def _acquire(elector: LeaderElector, streams: Streams) -> None:
    """Request the Lease only after the cache has synced, so that a replica with a synced cache gets the Lease first."""
    await streams.wait_for_sync()
    await elector.begin()


def _exit_without_lease(error: BaseException) -> None:
    """Exit before this replica writes anything more. An orderly shutdown takes seconds, in which the replica could still write."""
    logger.error("%s; this replica stops", error)
    _exit_now(OVERLAP_EXIT_CODE if isinstance(error, Overlap) else 1)


def _set_up_logging(settings: Settings) -> None:
    handler = logging.StreamHandler()
    plain = PlainLines("%(asctime)s %(levelname)-7s %(name)s: %(message)s")
    handler.setFormatter(JsonLines(log_context.fields) if settings.log_format == "json" else plain)
    logging.basicConfig(level=settings.log_level, handlers=[handler], force=True)
    logging.getLogger("kopf").setLevel(logging.WARNING)


if __name__ == "__main__":
    sys.exit(main())
