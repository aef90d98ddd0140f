"""Runs several operators at the same time, and ends one of kopf's tasks in each of them. Prints the exit codes as `{task: exit code}`.

This is a separate script, so that the operators can be forked from a process that has imported all modules and has no threads.
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
"""If a process is still running this long after its task has failed, an alarm ends the process with a different exit code."""


def lose(name: str) -> None:
    """Make kopf's task with this name fail soon after it is started."""
    create_task = asyncio.create_task

    # Any, because the arguments are passed through to asyncio.create_task, and a coroutine can return a value of any type.
    def with_a_fault(coro: Coroutine[Any, Any, Any], **given: Any) -> "asyncio.Task[Any]":
        return create_task(fail(coro) if given.get("name") == name else coro, **given)

    async def fail(coro: Coroutine[Any, Any, Any]) -> None:
        inner = create_task(coro)
        await asyncio.sleep(LIFE_SECONDS)
        inner.cancel()
        signal.alarm(DEATH_SECONDS)
        raise RuntimeError("killed by a test")

    asyncio.create_task = with_a_fault  # type: ignore[assignment]  # kopf only passes a coroutine and a name


def run(names: list[str]) -> dict[str, int]:
    """Start one process for each task name. In each process, the named task fails. Return the processes' exit codes by task name."""
    began = time.monotonic()
    names_by_pid = {}
    for name in names:
        pid = os.fork()
        if not pid:
            os.environ["DATAPREP_LEASE_NAME"] = name.replace(" ", "-").replace("/", "-")
            # Each process is a separate release with a separate class, so they don't block each other.
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
