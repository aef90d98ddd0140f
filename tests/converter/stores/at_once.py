"""Makes several calls concurrently, because each call waits for seconds before it fails."""

import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor


def raised(calls: Iterable[Callable[[], object]]) -> list[tuple[BaseException | None, float]]:
    """Return, for each call, the exception that it raised (or None) and the seconds that it took, in the order of the calls."""
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
