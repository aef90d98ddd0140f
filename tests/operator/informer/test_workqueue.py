"""Tests of the work queue: each key is processed by one worker at a time, urgent keys come first, and failed keys are processed again."""

import asyncio

import pytest
from tests.builders.watched import job_object, until

from dataprep_operator.errors import Unavailable
from dataprep_operator.informer import workqueue
from dataprep_operator.informer.cache import Cache, Kind
from dataprep_operator.informer.workqueue import WorkQueue
from dataprep_operator.objects.observed import Key


def test_a_key_is_worked_on_once_at_a_time_and_again_when_it_was_added_meanwhile() -> None:
    async def lives() -> tuple[int, int]:
        queue, at_once, most, done = WorkQueue[str](), 0, 0, 0

        async def work(_: str) -> None:
            nonlocal at_once, most, done
            at_once += 1
            most = max(most, at_once)
            await asyncio.sleep(0.01)
            at_once, done = at_once - 1, done + 1

        workers = [asyncio.create_task(queue.run(work)) for _ in range(4)]
        for _ in range(10):
            queue.add("a")
        await until(lambda: at_once)
        for _ in range(10):
            queue.add("a")
        await until(lambda: done == 2)
        await asyncio.sleep(0.03)
        for worker in workers:
            worker.cancel()
        return most, done

    assert asyncio.run(lives()) == (1, 2)


def test_a_failed_key_is_tried_again_and_the_others_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workqueue, "FIRST_DELAY_SECONDS", 0.005)

    async def lives() -> list[str]:
        queue, tries = WorkQueue[str](), list[str]()

        async def work(key: str) -> None:
            tries.append(key)
            if key == "bad" and tries.count("bad") < 3:
                raise Unavailable("try later")

        worker = asyncio.create_task(queue.run(work))
        queue.add("bad")
        queue.add("good")
        await until(lambda: tries.count("bad") == 3)
        worker.cancel()
        return tries

    assert asyncio.run(lives()) == ["bad", "good", "bad", "bad"]


def test_the_urgent_ones_are_first_but_every_fourth_is_another() -> None:
    async def lives() -> str:
        queue, seen = WorkQueue[str](high_priority=str.isupper), list[str]()

        async def work(key: str) -> None:
            seen.append(key)

        for key in "abcABCDEd":
            queue.add(key)
        worker = asyncio.create_task(queue.run(work))
        await until(lambda: len(seen) == 9)
        worker.cancel()
        return "".join(seen)

    assert asyncio.run(lives()) == "ABCaDEbcd"


def test_the_patient_ones_are_last_but_every_sixteenth_is_one_of_them() -> None:
    async def lives() -> list[str]:
        queue, seen = WorkQueue[str](high_priority=str.isupper, low_priority=str.isdigit), list[str]()

        async def work(key: str) -> None:
            seen.append(key)

        for key in "123abcdefghijklmnopA":
            queue.add(key)
        worker = asyncio.create_task(queue.run(work))
        await until(lambda: len(seen) == 20)
        worker.cancel()
        return seen

    assert "".join(asyncio.run(lives())) == "Aabcdefghijklmn1op23"


def test_jobs_that_run_do_not_wait_for_all_that_have_ended() -> None:
    """All jobs are enqueued every hour, and when an operator becomes the leader.

    Each job that has succeeded still takes one request to reconcile, so these jobs must not delay others.
    """
    cache = Cache()
    for number in range(40):
        cache.put(Kind.DATAPREPJOBS, job_object(f"made-{number}", uid=f"uid-{number}", status={"phase": "Succeeded"}))
    leaves = job_object("leaves", uid="uid-leaves", status={"phase": "Succeeded"})
    leaves["metadata"]["deletionTimestamp"] = "2026-01-02T00:00:00Z"
    for each in (job_object("runs", uid="uid-runs", status={"phase": "Running"}), leaves):
        cache.put(Kind.DATAPREPJOBS, each)

    async def lives() -> list[str]:
        queue, seen = WorkQueue[Key](high_priority=cache.is_new, low_priority=cache.has_succeeded), list[str]()

        async def work(key: Key) -> None:
            seen.append(key.name)

        everyone = cache.keys()
        for key in everyone:
            queue.add(key)
        worker = asyncio.create_task(queue.run(work))
        await until(lambda: len(seen) == 42)
        worker.cancel()
        return seen

    assert asyncio.run(lives())[:2] == ["runs", "leaves"]


def test_the_earlier_of_two_delays_counts() -> None:
    async def lives() -> None:
        queue, seen = WorkQueue[str](), list[str]()

        async def work(key: str) -> None:
            seen.append(key)

        worker = asyncio.create_task(queue.run(work))
        queue.add_after("a", 30)
        queue.add_after("a", 0.01)
        queue.add_after("a", 60)
        await until(lambda: seen)
        worker.cancel()
        queue.close()

    asyncio.run(lives())


@pytest.mark.parametrize(("failures", "seconds"), [(1, 0.5), (2, 1), (5, 8), (40, 30)])
def test_the_delay_doubles_up_to_a_limit(failures: int, seconds: float) -> None:
    assert workqueue.backoff_seconds(failures, chance=0) == seconds
    assert workqueue.backoff_seconds(failures, chance=1) == seconds / 2
