"""Runs coroutines for callers that aren't coroutines.

The event loop runs in a separate thread, because a notebook already runs an event loop in its main thread.
"""

import asyncio
import os
import threading
from collections.abc import AsyncGenerator, Coroutine, Iterator
from functools import cache
from typing import Any, TypeVar

_T = TypeVar("_T")


def run(coroutine: Coroutine[Any, Any, _T]) -> _T:
    """Runs a coroutine and returns its result. If the caller is interrupted, the coroutine is cancelled."""
    future = asyncio.run_coroutine_threadsafe(coroutine, _loop(os.getpid()))
    try:
        return future.result()
    except BaseException:
        future.cancel()
        raise


def iterate(items: AsyncGenerator[_T, None]) -> Iterator[_T]:
    """Yields the items of an asynchronous generator, and closes it at the end, even if the caller is interrupted."""
    end = object()
    tasks: list[Any] = []  # only the latest task; Any, because a task returns an item or `end`

    async def following() -> Any:
        tasks[:] = [asyncio.current_task()]
        return await anext(items, end)

    async def close() -> None:
        # A generator can't be closed while a cancelled task is still running in it.
        if tasks:
            await asyncio.wait(tasks)
        await items.aclose()

    try:
        while (item := run(following())) is not end:
            yield item
    finally:
        run(close())


@cache
def _loop(process: int) -> asyncio.AbstractEventLoop:
    """Returns the loop of this process. A forked process gets a new loop, because threads don't survive a fork."""
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, name=f"dataprep_io-{process}", daemon=True).start()
    return loop
