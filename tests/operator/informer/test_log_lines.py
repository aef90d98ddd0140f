"""All log lines of a reconciliation name its job and run, whichever module writes them."""

import asyncio
import json
import logging
from typing import Any

import pytest
from tests.operator.world import NAMESPACE, World

from dataprep_api import CRON_KIND
from dataprep_api.log_lines import JsonLines
from dataprep_operator.errors import Unavailable
from dataprep_operator.informer import log_context
from dataprep_operator.informer.workqueue import WorkQueue
from dataprep_operator.leadership import controller
from dataprep_operator.objects.observed import Key


class Lines(logging.Handler):
    """A handler that collects log lines instead of writing them."""

    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self.setFormatter(JsonLines(log_context.fields))
        self.found: list[dict[str, Any]] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.found.append(json.loads(self.format(record)))


@pytest.fixture
def lines() -> Any:  # Any: an iterator of Lines
    logger, handler = logging.getLogger("dataprep_operator"), Lines()
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    yield handler
    logger.removeHandler(handler)
    logger.setLevel(level)


def worked(world: World, *keys: Key) -> None:
    """Let a worker reconcile each key, as the leader does."""

    async def lives() -> None:
        queue = WorkQueue[Key]()
        worker = asyncio.create_task(queue.run(controller._worker(queue, world.reconciler.reconcile)))
        for key in keys:
            queue.add(key)
        for _ in range(200):
            await asyncio.sleep(0)
        worker.cancel()
        queue.close()

    asyncio.run(lives())


def test_a_line_has_the_job_and_its_run_once_that_is_known(world: World, lines: Lines) -> None:
    world.apply()
    worked(world, Key(NAMESPACE, "mnist"))
    world.planned()
    worked(world, Key(NAMESPACE, "mnist"))

    said = [(line["message"], line["namespace"], line["job"], line.get("runId")) for line in lines.found]
    assert (f"{NAMESPACE}/mnist: new → Planning", NAMESPACE, "mnist", None) in said
    assert (f"{NAMESPACE}/mnist: Planning → Running", NAMESPACE, "mnist", "0123abcd") in said


def test_a_failure_has_them_too_and_the_next_job_has_its_own(world: World, lines: Lines) -> None:
    world.running()
    world.converted()
    world.apply("other", output={"uri": "s3://out/other"})
    world.cluster.refusals[("status", "dataprepjobs")] = Unavailable("429")
    worked(world, Key(NAMESPACE, "mnist"), Key(NAMESPACE, "other"))

    failed = [(line["job"], line.get("runId")) for line in lines.found if line["logger"] == "dataprep_operator.informer.workqueue"]
    assert failed == [("mnist", "0123abcd"), ("other", None)]


def test_a_schedule_is_no_job() -> None:
    async def turned() -> dict[str, str | None]:
        log_context.bind(Key("n", "nightly", CRON_KIND))
        return dict(log_context.fields())

    assert asyncio.run(turned()) == {"namespace": "n", "cronJob": "nightly"}
    assert log_context.fields() == {}
