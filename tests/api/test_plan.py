"""Shards and tasks: every rank of every split is in exactly one shard, and every shard is in exactly one task."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dataprep_api.dataset import plan

SPLITS = st.lists(
    st.integers(1, 10_000).flatmap(lambda records: st.tuples(st.just(records), st.integers(1, min(records, 40)))), min_size=1, max_size=5
)


def a_plan(splits: list[tuple[int, int]], *, tasks: int) -> plan.PlanHead:
    """Build a plan with the splits s0, s1, …, each given by its records and shards."""
    template = "{split}-{shard}-of-{shards}.{ext}"
    return plan.PlanHead(
        run_id="r",
        encoding_version=1,
        spec_sha256="",
        inputs_sha256="",
        units_sha256="",
        reader="idx",
        samples=sum(records for records, _ in splits),
        bytes_in=0,
        splits=[
            plan.SplitPlan(name=f"s{number}", ranges=[(0, records)], records=records, shards=shards, template=template)
            for number, (records, shards) in enumerate(splits)
        ],
        extension="tfrecord",
        tasks=tasks,
    )


@given(SPLITS)
def test_shards_hold_each_rank_once_and_are_never_empty(splits: list[tuple[int, int]]) -> None:
    made = list(plan.shards(a_plan(splits, tasks=1)))

    assert [shard.number for shard in made] == list(range(len(made)))
    assert len({shard.file for shard in made}) == len(made)
    for number, (records, _) in enumerate(splits):
        own = [shard for shard in made if shard.split == f"s{number}"]
        assert [rank for shard in own for rank in range(shard.first, shard.first + shard.records)] == list(range(records))
        assert max(shard.records for shard in own) - min(shard.records for shard in own) <= 1
        assert min(shard.records for shard in own) >= 1


@pytest.mark.slow
@given(SPLITS, st.data())
def test_tasks_hold_each_shard_once_and_are_never_empty(splits: list[tuple[int, int]], data: st.DataObject) -> None:
    shards = sum(count for _, count in splits)
    head = a_plan(splits, tasks=data.draw(st.integers(1, shards)))

    tasks = [plan.task(head, index) for index in range(head.tasks)]

    assert [shard for task in tasks for shard in task] == list(plan.shards(head))
    assert min(len(task) for task in tasks) >= 1
    assert len(tasks[0]) == max(len(task) for task in tasks) <= min(len(task) for task in tasks) + 1


def test_sizes_are_fixed_so_that_a_later_version_resumes_an_older_run() -> None:
    made = list(plan.shards(a_plan([(10, 4), (1, 1)], tasks=2)))

    assert [(shard.split, shard.index, shard.first, shard.records) for shard in made] == [
        ("s0", 0, 0, 2), ("s0", 1, 2, 3), ("s0", 2, 5, 2), ("s0", 3, 7, 3), ("s1", 0, 0, 1),
    ]  # fmt: skip


def test_a_plan_read_back_is_equal_and_has_one_spelling() -> None:
    head = a_plan([(10, 4)], tasks=2)

    assert plan.PlanHead.model_validate_json(head.to_bytes()) == head
    assert head.to_bytes() == plan.PlanHead.model_validate_json(head.to_bytes()).to_bytes()
