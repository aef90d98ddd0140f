"""Runs kopf's watches in every replica, and the reconcile workers and the periodic resync in the leader only."""

import asyncio
import functools
import itertools
import logging
import signal
import time
from collections.abc import Awaitable, Callable
from typing import Final

import kopf

from dataprep_operator import metrics
from dataprep_operator.errors import OperatorError
from dataprep_operator.informer import handlers, log_context
from dataprep_operator.informer.cache import Cache
from dataprep_operator.informer.streams import Streams, wrap_kopf
from dataprep_operator.informer.workqueue import WorkQueue
from dataprep_operator.objects.observed import Key
from dataprep_operator.server.probes import Health
from dataprep_operator.settings import Settings

logger = logging.getLogger(__name__)

_FINISHED_EVERY: Final = 12
"""Only every twelfth resync (by default once an hour) includes finished jobs, because reconciling 5,000 of them takes seconds.

The `handover` module relies on this resync.
"""

Reconcile = Callable[[Key], Awaitable[float | None]]
"""Reconciles one object, and returns the seconds after which to reconcile it again, if any."""


Enqueue = Callable[[Key, float], None]
"""Called with the key of a changed object and the seconds after which to reconcile it."""


Died = Callable[[str, BaseException | None], None]
"""Called with the name and the error of a kopf task that ended unexpectedly."""

CREDENTIALS_TASK: Final = "credentials retriever"
"""Name of the task that renews kopf's connections. `spawn_tasks` starts this task but doesn't return it."""


async def watch(*, settings: Settings, cache: Cache, streams: Streams, enqueue: Enqueue, stop: asyncio.Event, died: Died) -> None:
    """Keep the cache up to date until `stop` is set. A standby does this too, so that it can take over without first listing all objects.

    kopf's tasks must live as long as the operator. If a task of kopf ends early, kopf stops the other tasks one by one, which can take
    minutes. Therefore `died` must end the process.
    """
    unwrap = wrap_kopf(streams)
    before = asyncio.all_tasks()
    try:
        roots = await kopf.spawn_tasks(
            registry=handlers.registry(cache=cache, streams=streams, enqueue=enqueue),
            settings=handlers.operator_settings(settings),
            # By default kopf looks up the user's name, but in the image the user 65532 has no name.
            identity=settings.identity,  # type: ignore[arg-type]  # kopf's NewType of str is not public
            standalone=True,
            clusterwide=not settings.namespaces,
            namespaces=settings.namespaces,
            stop_flag=stop,
        )
        # Set the signal handlers again, because kopf has just replaced them.
        stop_by_signals(stop)
        spawned = asyncio.all_tasks() - before
        for task in {*roots, *(task for task in spawned if task.get_name() == CREDENTIALS_TASK)}:
            task.add_done_callback(functools.partial(_report_end, stop=stop, died=died))
        await kopf.run_tasks(roots, ignored=before)
    finally:
        unwrap()


def stop_by_signals(stop: asyncio.Event) -> None:
    """Set `stop` on SIGINT and SIGTERM."""
    for signal_number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(signal_number, stop.set)


def _report_end(task: "asyncio.Task[None]", *, stop: asyncio.Event, died: Died) -> None:
    if not stop.is_set():
        died(task.get_name(), None if task.cancelled() else task.exception())


async def lead(
    *,
    settings: Settings,
    cache: Cache,
    streams: Streams,
    queue: WorkQueue[Key],
    reconcile: Reconcile,
    health: Health,
    stop: asyncio.Event,
) -> None:
    """Reconcile until `stop` is set."""
    health.leading = True
    work = asyncio.create_task(_work(settings, cache, streams, queue, reconcile), name="work")
    stopping = asyncio.create_task(stop.wait(), name="stop")
    try:
        await asyncio.wait({work, stopping}, return_when=asyncio.FIRST_COMPLETED)
        # When kopf exits, it cancels every task that was started after kopf's own tasks, so `work` may have been cancelled.
        if work.done() and not work.cancelled():
            work.result()
    finally:
        health.leading = False
        for task in (work, stopping):
            task.cancel()
        await asyncio.gather(work, stopping, return_exceptions=True)
        queue.close()


async def _work(settings: Settings, cache: Cache, streams: Streams, queue: WorkQueue[Key], reconcile: Reconcile) -> None:
    """Run the workers after the cache has synced.

    Before the sync, an existing child that isn't in the cache yet would seem to be missing.
    """
    await streams.wait_for_sync()
    # Unfinished objects come first, because there may be thousands of finished objects.
    for key in [*cache.active_keys(), *cache.keys()]:
        queue.add(key)
    async with asyncio.TaskGroup() as group:
        for number in range(settings.workers):
            group.create_task(queue.run(_worker(queue, reconcile)), name=f"reconcile {number}")
        group.create_task(_resync(cache, queue, every_seconds=settings.resync_seconds), name="resync")


def _worker(queue: WorkQueue[Key], reconcile: Reconcile) -> Callable[[Key], Awaitable[None]]:
    async def work(key: Key) -> None:
        started_at = time.monotonic()
        log_context.bind(key)
        metrics.QUEUE_DEPTH.set(len(queue))
        try:
            wait = await reconcile(key)
        except OperatorError:
            metrics.RECONCILE_ERRORS.inc()
            raise
        finally:
            metrics.RECONCILE_DURATION.observe(time.monotonic() - started_at)
        if wait is not None:
            queue.add_after(key, wait)

    return work


async def _resync(cache: Cache, queue: WorkQueue[Key], *, every_seconds: float) -> None:
    """Enqueue every object periodically, in case a watch event was lost. Finished objects are enqueued less often."""
    for number in itertools.count(1):
        await asyncio.sleep(every_seconds)
        for key in cache.active_keys() if number % _FINISHED_EVERY else cache.keys():
            queue.add(key)
