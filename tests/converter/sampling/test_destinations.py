"""Destinations: each sample goes to exactly one task, the task that reads it."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.builders.jobs import plan_of
from tests.builders.specs import parse_job

from dataprep_api.dataset.plan import task
from dataprep_converter.pipeline.shard_samples import samples_of
from dataprep_converter.planning import planner
from dataprep_converter.sampling.destinations import NOWHERE, Destinations

ROWS = 300
THREE = [{"name": "train", "fraction": 0.5}, {"name": "val", "fraction": 0.2}, {"name": "test", "fraction": 0.3}]
SPECS: dict[str, dict[str, Any]] = {
    "one split": {},
    "in order": {"shuffle": None},
    "drawn": {"splits": {"seed": 7, "into": THREE}},
    "exact": {"splits": {"exact": True, "into": THREE}},
    "counts": {"splits": {"into": [{"name": "few", "count": 20}, {"name": "rest"}]}},
    "a column": {"splits": {"column": "part", "into": [{"name": "a", "values": ["a"]}]}},
    "groups": {"splits": {"groupBy": "part", "into": THREE}},
    "a limit": {"limit": 50},
    "no duplicates": {"deduplicate": {"columns": ["part"]}},
    "minibatches": {"output": {"granularity": "Minibatch", "minibatchSize": 7}},
}


@pytest.mark.parametrize("spec", SPECS.values(), ids=SPECS.keys())
@pytest.mark.parametrize(("shards", "parallelism"), [(1, 1), (11, 4), (40, 100)])
def test_each_sample_goes_to_the_task_that_reads_it(
    tmp_path: Path, spec: dict[str, Any], shards: int, parallelism: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(planner, "POD_BYTES", 1)
    (tmp_path / "rows.csv").write_text("".join(f"{number},{'abc'[number % 3]}\n" for number in range(ROWS)))
    columns = [{"name": "id", "type": "Int64"}, {"name": "part", "type": "String"}]
    output = {"uri": str(tmp_path / "out"), "shards": {"count": shards}} | spec.get("output", {})
    written = {
        "source": {"csv": {"uris": [str(tmp_path / "rows.csv")], "columns": columns}},
        "shuffle": {"seed": 1},
        "workers": {"parallelism": parallelism},
    }
    plan = plan_of(parse_job(written | spec | {"output": output}))

    expected = np.full(ROWS, NOWHERE, np.int64)
    for index in range(plan.head.tasks):
        for shard in task(plan.head, index):
            for samples in samples_of(shard, plan=plan, most_records=13):
                expected[samples] = index
    assert np.array_equal(Destinations(plan).tasks(np.arange(ROWS)), expected)
    assert (expected != NOWHERE).sum() == sum(split.records for split in plan.head.splits)
