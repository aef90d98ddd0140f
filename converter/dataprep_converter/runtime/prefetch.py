"""Prefetching: a thread reads at most `depth` items ahead while the caller computes."""

import contextlib
import queue
import threading
from collections.abc import Generator, Iterator
from typing import TypeVar

from dataprep_converter.core.closeable import close_generator

Item = TypeVar("Item")


class _End:
    """Marks the end of the items in the queue. Contains the producer's error if the producer has failed."""

    def __init__(self, error: BaseException | None) -> None:
        self.error = error


def prefetched(items: Iterator[Item], *, depth: int = 2) -> Generator[Item, None, None]:
    """Yields `items`, which another thread produces up to `depth` items ahead. If the producer fails, its error is raised after the items
    that were produced before the failure.

    Closing the returned generator stops the producer at its next item. If `items` is a generator, it is closed too.
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
            # Close the generator now. Otherwise an error's traceback could keep the generator and its resources alive for a long time.
            close_generator(items)
        except BaseException as exc:  # any error is passed to the consumer
            error = exc
        _put(ready, _End(error), stopped)

    producer = threading.Thread(target=produce, name="prefetch", daemon=True)
    try:
        # Start the thread within `try`: Ctrl-C can come while the thread starts, and a thread that outlives the interpreter can crash the
        # process.
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
        with contextlib.suppress(RuntimeError):  # the thread has not started; it will end before its first item
            producer.join(timeout=30)


def _put(ready: "queue.Queue[Item | _End]", item: "Item | _End", stopped: threading.Event) -> bool:
    while not stopped.is_set():
        try:
            ready.put(item, timeout=0.1)
        except queue.Full:
            continue
        return True
    return False
