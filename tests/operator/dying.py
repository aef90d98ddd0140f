"""Runs operators that each lose one of kopf's tasks, all at the same time, and prints how each process has ended: `{task: exit code}`.

A script: the processes are forked from one that has imported everything and has no threads.
"""

import asyncio
import json
import os
import signal
import sys
import time
from collections.abc import Coroutine
from typing import Any

from dataprep_operator.__main__ import main

NOBODY = "nobody"
PATIENCE_SECONDS = 100.0
LIFE_SECONDS = 1.0
DEATH_SECONDS = 30
"""A process that has not ended so long after it lost its task is ended by an alarm, and so with another exit code."""


def lose(name: str) -> None:
    """From now on kopf's task of that name fails soon after it was started."""
    create_task = asyncio.create_task

    # Any: whatever asyncio takes.
    def with_a_fault(coro: Coroutine[Any, Any, Any], **given: Any) -> "asyncio.Task[Any]":
        return create_task(fail(coro) if given.get("name") == name else coro, **given)

    async def fail(coro: Coroutine[Any, Any, Any]) -> None:
        inner = create_task(coro)
        await asyncio.sleep(LIFE_SECONDS)
        inner.cancel()
        signal.alarm(DEATH_SECONDS)
        raise RuntimeError("killed by a test")

    asyncio.create_task = with_a_fault  # type: ignore[assignment]  # kopf names coroutine and task only


def run(names: list[str]) -> dict[str, int]:
    """How the processes end that each lose the task of that name."""
    began = time.monotonic()
    names_by_pid = {}
    for name in names:
        pid = os.fork()
        if not pid:
            os.environ["DATAPREP_LEASE_NAME"] = name.replace(" ", "-").replace("/", "-")
            # Each is a release of its own, and none is in the others' way.
            os.environ["DATAPREP_OPERATOR_CLASS"] = os.environ["DATAPREP_LEASE_NAME"]
            if name != NOBODY:
                lose(name)
            os._exit(main([]))
        names_by_pid[pid] = name
    ended: dict[str, int] = {}
    while names_by_pid:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if pid:
            ended[names_by_pid.pop(pid)] = os.waitstatus_to_exitcode(status)
        elif time.monotonic() - began > PATIENCE_SECONDS:
            for each in names_by_pid:
                os.kill(each, signal.SIGKILL)
        elif list(names_by_pid.values()) == [NOBODY]:
            os.kill(next(iter(names_by_pid)), signal.SIGTERM)
            time.sleep(1)
        time.sleep(0.05)
    return ended


if __name__ == "__main__":
    sys.stdout.write(json.dumps(run(sys.argv[1:])))
