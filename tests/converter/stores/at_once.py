"""Calls that each wait for seconds before they give up, made at the same time."""

import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor


def raised(calls: Iterable[Callable[[], object]]) -> list[tuple[BaseException | None, float]]:
    """What each call raised, None when nothing, and after how many seconds; in their order."""
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
