"""Tests of coroutines that run for callers that aren't coroutines."""

import asyncio
import signal
import threading
from collections.abc import AsyncGenerator

import pytest

from dataprep_io.jobs import background


async def numbers(closed: list[str], *, interrupts: bool) -> AsyncGenerator[int, None]:
    """Yields two numbers. With `interrupts`, it then interrupts the caller while the caller waits for a third number.

    If the signal comes just before the caller begins to wait, Python reports the signal only at the end of the wait. So the generator
    sleeps only for a second.
    """
    try:
        yield 1
        yield 2
        if interrupts:
            signal.pthread_kill(int(threading.main_thread().ident or 0), signal.SIGINT)
            await asyncio.sleep(1)
    finally:
        await asyncio.sleep(0)
        closed.append("closed")


def test_an_asynchronous_generator_becomes_an_iterator() -> None:
    closed: list[str] = []
    assert list(background.iterate(numbers(closed, interrupts=False))) == [1, 2]
    assert closed == ["closed"]


def test_an_interrupted_caller_gets_the_interrupt_and_the_generator_is_closed() -> None:
    closed: list[str] = []
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            list(background.iterate(numbers(closed, interrupts=True)))
    finally:
        signal.signal(signal.SIGINT, before)
    assert closed == ["closed"]
    assert background.run(asyncio.sleep(0, "The loop goes on.")) == "The loop goes on."
