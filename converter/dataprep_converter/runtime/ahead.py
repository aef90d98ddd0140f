"""Calls a function for several items at the same time, for calls that mostly wait for a store."""

import threading
from collections import deque
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")

_thread = threading.local()
"""Only the threads of a `mapped_ahead` have an attribute: the event `closed`."""


_is_stopped: Callable[[], bool] | None = None
"""Returns whether the work of this process isn't needed any more."""


class NotNeededError(Exception):
    """Ends a call whose result nobody needs any more."""


def end_if_not_needed() -> None:
    """Raises NotNeededError if this process's work isn't needed any more (`end_when`), and in a call of `mapped_ahead` whose generator has
    been closed. Long calls call this function between requests."""
    closed: threading.Event | None = getattr(_thread, "closed", None)
    if (_is_stopped is not None and _is_stopped()) or (closed is not None and closed.is_set()):
        raise NotNeededError


def end_when(is_stopped: Callable[[], bool] | None) -> None:
    """Makes long calls in this process end when `is_stopped()` is true. With None, they don't end early."""
    global _is_stopped  # a process does one kind of work
    _is_stopped = is_stopped


class _NotAloneError(Exception):
    """Ends a call that would take so much memory that it must not run beside others."""


def continue_alone() -> None:
    """Ends a call in a thread of `mapped_ahead`. When its turn comes, it is repeated in the thread that takes the results."""
    if getattr(_thread, "closed", None) is not None:
        raise _NotAloneError


def mapped_ahead(call: Callable[[Item], Result], items: Iterable[Item], *, most: int) -> Generator[Result, None, None]:
    """Yields `call(item)` for each item, in order. Up to `most` threads run the calls of the next items.

    If a call or the iteration of `items` fails, the error is raised when its turn comes, so the caller sees the same results and the same
    error as without threads. Closing the generator cancels the calls that haven't begun, and waits for the others (`end_if_not_needed`).
    """
    closed = threading.Event()
    pending: deque[tuple[Item, Future[Result]]] = deque()
    remaining = iter(items)
    failure: Exception | None = None
    with ThreadPoolExecutor(most, thread_name_prefix="ahead", initializer=_begin, initargs=(closed,)) as threads:
        try:
            while True:
                try:
                    item = next(remaining)
                except StopIteration:
                    break
                except Exception as exc:  # raised below, after the earlier results
                    failure = exc
                    break
                pending.append((item, threads.submit(call, item)))
                if len(pending) == most:
                    yield _result(call, *pending.popleft())
            while pending:
                yield _result(call, *pending.popleft())
            if failure is not None:
                raise failure
        finally:
            closed.set()
            for _, future in pending:
                future.cancel()


def _result(call: Callable[[Item], Result], item: Item, future: Future[Result]) -> Result:
    try:
        return future.result()
    except _NotAloneError:
        return call(item)


def _begin(closed: threading.Event) -> None:
    _thread.closed = closed
