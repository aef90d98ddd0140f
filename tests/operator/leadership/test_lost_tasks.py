"""If any of kopf's own tasks ends, the process exits immediately with an error."""

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import kopf
import pytest
from tests.operator.stub_api import StubApi

from dataprep_operator.informer import handlers
from dataprep_operator.informer.cache import Cache
from dataprep_operator.informer.streams import Streams
from dataprep_operator.leadership import controller
from dataprep_operator.settings import Settings

ROOT: Final = Path(__file__).parents[3]
TASKS: Final = (
    "stop-flag checker",
    "ultimate termination",
    "startup/cleanup activities",
    "daemon killer",
    "credentials retriever",
    "poster of events",
    "admission insights chain",
    "admission validating configuration manager",
    "admission mutating configuration manager",
    "admission webhook server",
    "resource observer",
    "namespace observer",
    "multidimensional multitasker",
)
WATCHERS: Final = ("watcher for dataprepjobs.v1alpha1.dataprep.io@None", "watcher for pods.v1@None")


@pytest.fixture
def api() -> Iterator[StubApi]:
    with StubApi() as stub:
        yield stub


def test_these_are_all_of_kopfs_tasks() -> None:
    async def names() -> set[str]:
        before = asyncio.all_tasks()
        streams = Streams(expected=frozenset(), cache=Cache(), enqueue=lambda _: None)
        registry = handlers.registry(cache=Cache(), streams=streams, enqueue=lambda _, __: None)
        roots = await kopf.spawn_tasks(
            registry=registry,
            settings=handlers.operator_settings(Settings()),
            identity="test",  # type: ignore[arg-type]  # kopf's NewType of str is not public
            standalone=True,
            clusterwide=True,
            stop_flag=asyncio.Event(),
        )
        core = [task for task in asyncio.all_tasks() - before if task.get_name() == controller.CREDENTIALS_TASK]
        found = {task.get_name() for task in [*roots, *core]}
        for task in asyncio.all_tasks() - before:
            task.cancel()
        return found

    assert asyncio.run(names()) == set(TASKS)


@pytest.mark.slow
def test_a_process_that_loses_a_task_of_kopfs_is_gone_in_seconds(api: StubApi, tmp_path: Path) -> None:
    """A leader exits just as quickly, and its Lease then expires. A process whose tasks are all running shuts down cleanly on SIGTERM."""
    environment = {
        "PATH": os.environ.get("PATH", ""),
        "PYTHONPATH": os.pathsep.join(str(ROOT / each) for each in ("api", "operator")),
        "PYTHONSAFEPATH": "1",
        "KUBECONFIG": str(api.kubeconfig(tmp_path)),
        "DATAPREP_LISTEN_HOST": "127.0.0.1",
        "DATAPREP_LISTEN_PORT": "0",
        "DATAPREP_LEASE_NAMESPACE": "ops",
    }
    command = [sys.executable, str(Path(__file__).with_name("dying.py")), *TASKS, *WATCHERS, "nobody"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    ended = json.loads(done.stdout)

    assert {name: code for name, code in ended.items() if code != 1} == {"nobody": 0}, done.stderr[-3000:]
    assert api.leases.get("nobody", {"spec": {"holderIdentity": ""}})["spec"]["holderIdentity"] == ""


def test_a_task_that_ends_because_all_ends_is_no_fault() -> None:
    died: list[str] = []

    async def end(*, is_wanted: bool) -> None:
        stop = asyncio.Event()
        if is_wanted:
            stop.set()
        task = asyncio.create_task(asyncio.sleep(0), name="kopf's")
        await task
        controller._report_end(task, stop=stop, died=lambda name, _: died.append(name))

    asyncio.run(end(is_wanted=True))
    assert died == []
    asyncio.run(end(is_wanted=False))
    assert died == ["kopf's"]
