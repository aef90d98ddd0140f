"""Calls a function for several items at the same time. This is for calls that spend most of their time waiting for a store."""

import threading
from collections import deque
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")

_thread = threading.local()
"""In the threads that `mapped_ahead` starts, the attribute `closed` is an event. Other threads don't have this attribute."""


_is_stopped: Callable[[], bool] | None = None
"""Returns whether the work of this process is no longer needed."""


class NotNeededError(Exception):
    """Ends a call whose result is no longer needed."""


def end_if_not_needed() -> None:
    """Raises NotNeededError if this process's work is no longer needed (`end_when`), or if this is a thread of a `mapped_ahead` generator
    that has been closed. Long calls call this function between requests."""
    closed: threading.Event | None = getattr(_thread, "closed", None)
    if (_is_stopped is not None and _is_stopped()) or (closed is not None and closed.is_set()):
        raise NotNeededError


def end_when(is_stopped: Callable[[], bool] | None) -> None:
    """Makes long calls in this process end early when `is_stopped()` is true. With None, long calls don't end early."""
    global _is_stopped  # one variable is enough, because a process does only one kind of work
    _is_stopped = is_stopped


class _NotAloneError(Exception):
    """Ends a call that needs so much memory that it must not run at the same time as other such calls."""


def continue_alone() -> None:
    """Ends the current call if it runs in a thread that `mapped_ahead` started.

    The thread that takes the results repeats the call when it needs the result.
    """
    if getattr(_thread, "closed", None) is not None:
        raise _NotAloneError


def mapped_ahead(call: Callable[[Item], Result], items: Iterable[Item], *, most: int) -> Generator[Result, None, None]:
    """Yields `call(item)` for each item, in order. Up to `most` threads run the calls for the next items.

    If a call or the iteration of `items` fails, the earlier results are yielded before the error is raised, as in a loop without threads.
    Closing the generator cancels the calls that haven't begun, and waits for the other calls, which can end early (`end_if_not_needed`).
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
