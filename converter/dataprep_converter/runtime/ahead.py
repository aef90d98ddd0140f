"""Calls a function for several items at the same time, for calls that mostly wait for a store."""

from collections import deque
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")


def mapped_ahead(call: Callable[[Item], Result], items: Iterable[Item], *, most: int) -> Generator[Result, None, None]:
    """Yields `call(item)` for each item, in order. Up to `most` threads make the calls for the next items in advance.

    If a call fails, its error is raised when its result is due, so the caller sees the same error as without threads. Closing the generator
    cancels the calls that haven't begun, and waits for the others.
    """
    pending: deque[Future[Result]] = deque()
    with ThreadPoolExecutor(most, thread_name_prefix="ahead") as threads:
        try:
            for item in items:
                pending.append(threads.submit(call, item))
                if len(pending) == most:
                    yield pending.popleft().result()
            while pending:
                yield pending.popleft().result()
        finally:
            for future in pending:
                future.cancel()
