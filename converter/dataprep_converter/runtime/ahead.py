"""Calls a function for several items at the same time, for calls that mostly wait for a store."""

from collections import deque
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")


def mapped_ahead(call: Callable[[Item], Result], items: Iterable[Item], *, most: int) -> Generator[Result, None, None]:
    """Yields `call(item)` for each item, in order. Up to `most` threads run the calls of the next items.

    If a call or the iteration of `items` fails, the error is raised when its turn comes, so the caller sees the same results and the same
    error as without threads. Closing the generator cancels the calls that haven't begun, and waits for the others.
    """
    pending: deque[Future[Result]] = deque()
    remaining = iter(items)
    with ThreadPoolExecutor(most, thread_name_prefix="ahead") as threads:
        try:
            while True:
                try:
                    item = next(remaining)
                except StopIteration:
                    break
                except Exception as exc:  # raised below, after the earlier results
                    failed: Future[Result] = Future()
                    failed.set_exception(exc)
                    pending.append(failed)
                    break
                pending.append(threads.submit(call, item))
                if len(pending) == most:
                    yield pending.popleft().result()
            while pending:
                yield pending.popleft().result()
        finally:
            for future in pending:
                future.cancel()
