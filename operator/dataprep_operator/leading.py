"""What the leader runs: kopf's watches, the workers that reconcile, and the slow scan that forgets nobody."""

import asyncio
import itertools
import logging
import time
from collections.abc import Awaitable, Callable
from typing import Final

import kopf

from dataprep_operator import metrics, streams, watching
from dataprep_operator.cache import Cache
from dataprep_operator.errors import OperatorError
from dataprep_operator.observed import Key
from dataprep_operator.probes import Health
from dataprep_operator.settings import Settings
from dataprep_operator.workqueue import WorkQueue

logger = logging.getLogger(__name__)

_READY_POLL_SECONDS = 0.1
_SETTLED_EVERY: Final = 12
"""An hour, when a scan is made every five minutes: 5,000 looks take seconds, which an idle operator hasn't got."""

Look = Callable[[Key], Awaitable[float | None]]
"""One look at one object; returns the seconds after which the next is due."""


async def lead(*, settings: Settings, cache: Cache, queue: WorkQueue[Key], look: Look, health: Health, stop: asyncio.Event) -> None:
    """Watch and reconcile until `stop` is set or a watch fails for good."""
    heard = streams.Streams(expected=watching.expected_streams(settings), cache=cache, concerns=queue.add)
    undo = streams.listen(heard)
    health.streams, health.leading = heard, True
    handlers = watching.registry(cache=cache, streams=heard, concerns=queue.add_after)
    workers = [asyncio.create_task(_work(heard, queue, look), name=f"reconcile {n}") for n in range(settings.workers)]
    scan = asyncio.create_task(_scan(cache, queue, every_seconds=settings.resync_seconds), name="scan")
    try:
        await kopf.operator(
            registry=handlers,
            settings=watching.operator_settings(),
            # Without one kopf asks for the user's name, and an image's user 65532 has none.
            identity=settings.identity,  # type: ignore[arg-type]  # kopf's NewType of str is not public
            standalone=True,
            clusterwide=not settings.namespaces,
            namespaces=settings.namespaces,
            stop_flag=stop,
        )
    finally:
        health.leading = False
        undo()
        for task in [*workers, scan]:
            task.cancel()
        await asyncio.gather(*workers, scan, return_exceptions=True)
        queue.close()


async def _work(heard: streams.Streams, queue: WorkQueue[Key], look: Look) -> None:
    """One worker. It begins when the cache is whole: with half of it, children would seem to be missing."""
    while not heard.complete:
        await asyncio.sleep(_READY_POLL_SECONDS)
    await queue.run(_timed(queue, look))


def _timed(queue: WorkQueue[Key], look: Look) -> Callable[[Key], Awaitable[None]]:
    async def work(key: Key) -> None:
        started = time.monotonic()
        metrics.QUEUE_DEPTH.set(len(queue))
        try:
            wait = await look(key)
        except OperatorError:
            metrics.RECONCILE_ERRORS.inc()
            raise
        finally:
            metrics.RECONCILE_DURATION.observe(time.monotonic() - started)
        if wait is not None:
            queue.add_after(key, wait)

    return work


async def _scan(cache: Cache, queue: WorkQueue[Key], *, every_seconds: float) -> None:
    """Every object of ours comes round now and then, whatever events were lost; what has ended, less often."""
    for number in itertools.count(1):
        await asyncio.sleep(every_seconds)
        for key in cache.unsettled() if number % _SETTLED_EVERY else cache.keys():
            queue.add(key)
