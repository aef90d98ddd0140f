"""Leader election. A thread with its own event loop and connections holds the Lease and the scope markers.

So the replica doesn't lose the Lease while its main loop is busy with thousands of jobs or a flood of requests. If the main loop has
stalled for a minute, however, it may never recover, so the thread gives up the Lease.
"""

import asyncio
import contextlib
import threading
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from datetime import datetime
from typing import Final, Protocol

from dataprep_operator.cluster.cluster import Cluster
from dataprep_operator.errors import LeaseLost
from dataprep_operator.leadership.lease import Lease
from dataprep_operator.leadership.scope import Scope
from dataprep_operator.settings import Settings

_STALL_SECONDS: Final = 60.0
_BEAT_SECONDS: Final = 1.0


class Connection(Cluster, Protocol):
    """A cluster client that can be closed."""

    async def close(self) -> None:
        """Close its connections."""
        ...


class LeaderElector:
    """Acquires the Lease and keeps it.

    When the Lease can't be kept, the election thread calls `lost`, which must end the process immediately.
    """

    def __init__(
        self,
        *,
        connect: Callable[[], Awaitable[Connection]],
        settings: Settings,
        clock: Callable[[], datetime],
        lost: Callable[[BaseException], None],
    ) -> None:
        self._connect = connect
        self._settings = settings
        self._clock = clock
        self._on_lost = lost
        self._lease: Lease | None = None
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="election", daemon=True)
        self._start_future: Future[None] = Future()
        self._end_future: Future[None] = Future()
        self._heartbeat: asyncio.Task[None] | None = None
        self._last_beat_at = time.monotonic()

    @property
    def is_leader(self) -> bool:
        """Whether this replica is certainly the leader."""
        return self._lease is not None and self._lease.is_valid

    async def begin(self) -> None:
        """Wait until this replica leads. Raises Overlap when another release owns one of this release's namespaces."""
        self._thread.start()
        await asyncio.shield(asyncio.wrap_future(self._start_future))
        self._heartbeat = asyncio.create_task(self._beat(), name="heartbeat")

    async def end(self) -> None:
        """Release the Lease, or stop waiting for it."""
        if self._heartbeat is not None:
            self._heartbeat.cancel()
        if self._thread.ident is None:
            self._loop.close()
            return
        # A RuntimeError means that the loop is closed, so the thread has already ended.
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._cancel)
        await asyncio.shield(asyncio.wrap_future(self._end_future))

    async def _beat(self) -> None:
        while True:
            self._last_beat_at = time.monotonic()
            await asyncio.sleep(_BEAT_SECONDS)

    # --- methods that run on the election thread -----------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            self._loop.run_until_complete(self._acquire_and_hold())
        except asyncio.CancelledError:
            pass
        except BaseException as exc:  # begin() raises this exception instead of waiting forever
            if not self._start_future.done():
                self._start_future.set_exception(exc)
        finally:
            self._end_future.set_result(None)
            self._loop.close()

    async def _acquire_and_hold(self) -> None:
        settings = self._settings
        cluster = await self._connect()
        try:
            lease = Lease(cluster, namespace=settings.lease_namespace or "", name=settings.lease_name, identity=settings.identity)
            scope = Scope(cluster, settings=settings, clock=self._clock)
            await scope.claim()
            # Keep the markers from now on. Otherwise, a marker could expire while this replica waits for the Lease, and another release
            # would start.
            keeper = asyncio.create_task(scope.keep())
            try:
                await _acquire(lease, keeper)
                self._lease = lease
                self._last_beat_at = time.monotonic()
                self._start_future.set_result(None)
                await self._hold(lease, keeper)
            finally:
                keeper.cancel()
        finally:
            await cluster.close()

    async def _hold(self, lease: Lease, keeper: "asyncio.Task[None]") -> None:
        try:
            await asyncio.gather(lease.hold(), keeper, self._watch())
        except asyncio.CancelledError:
            await lease.release()
        except BaseException as exc:
            self._on_lost(exc)
            raise

    async def _watch(self) -> None:
        while (stalled_seconds := time.monotonic() - self._last_beat_at) < _STALL_SECONDS:
            await asyncio.sleep(_BEAT_SECONDS)
        raise LeaseLost(f"the event loop has not responded for {stalled_seconds:.0f} s")

    def _cancel(self) -> None:
        for task in asyncio.all_tasks(self._loop):
            task.cancel()


async def _acquire(lease: Lease, keeper: "asyncio.Task[None]") -> None:
    """Wait until this replica is the leader. Raises Overlap if the task `keeper` fails with Overlap."""
    acquiring = asyncio.create_task(lease.acquire())
    try:
        await asyncio.wait((acquiring, keeper), return_when=asyncio.FIRST_COMPLETED)
        if keeper.done():
            keeper.result()
        await acquiring
    finally:
        acquiring.cancel()
