"""Prefetching: reading goes on in its own thread while the caller computes, at most `depth` items ahead."""

import contextlib
import queue
import threading
from collections.abc import Generator, Iterator
from typing import TypeVar

from dataprep_converter.core.closeable import close_generator

Item = TypeVar("Item")


class _End:
    """Closes the queue; carries the producer's error, if it had one."""

    def __init__(self, error: BaseException | None) -> None:
        self.error = error


def prefetched(items: Iterator[Item], *, depth: int = 2) -> Generator[Item, None, None]:
    """`items`, produced by one thread up to `depth` ahead. The producer's error is raised here, in its place in the order.

    Closing the returned generator stops the producer at its next item, and closes `items` where that is a generator.
    """
    ready: queue.Queue[Item | _End] = queue.Queue(maxsize=depth)
    stopped = threading.Event()

    def produce() -> None:
        error: BaseException | None = None
        try:
            if stopped.is_set():
                return
            for item in items:
                if not _put(ready, item, stopped):
                    break
            # Release its resources now, not when the last reference goes, which an error's traceback may keep for long.
            close_generator(items)
        except BaseException as exc:  # handed to the consumer, whatever it is
            error = exc
        _put(ready, _End(error), stopped)

    producer = threading.Thread(target=produce, name="prefetch", daemon=True)
    try:
        # Inside: Ctrl-C may come while it starts, and a thread that outlives the interpreter can take the process down with it.
        producer.start()
        while True:
            item = ready.get()
            if isinstance(item, _End):
                if item.error is not None:
                    raise item.error
                return
            yield item
    finally:
        stopped.set()
        with contextlib.suppress(RuntimeError):  # it has not begun, and will end before its first item
            producer.join(timeout=30)


def _put(ready: "queue.Queue[Item | _End]", item: "Item | _End", stopped: threading.Event) -> bool:
    while not stopped.is_set():
        try:
            ready.put(item, timeout=0.1)
        except queue.Full:
            continue
        return True
    return False
