"""Makes several calls concurrently, because each call waits for seconds before it fails."""

import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor


def raised(calls: Iterable[Callable[[], object]]) -> list[tuple[BaseException | None, float]]:
    """Return a pair for each call, in order: the exception that the call raised, or None, and the seconds that the call took."""
    asked = [*calls]

    def made(call: Callable[[], object]) -> tuple[BaseException | None, float]:
        began = time.monotonic()
        try:
            call()
        except Exception as exc:
            return exc, time.monotonic() - began
        return None, time.monotonic() - began

    with ThreadPoolExecutor(len(asked)) as threads:
        return [*threads.map(made, asked)]
