"""`hash.keyEnv`: each data set has only one key.

A job with a different key is a new run, which can neither continue nor extend the existing run.
"""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from tests.builders.jobs import run_job
from tests.builders.specs import parse_job

from dataprep_api.resources.job import DataPrepJob
from dataprep_converter.core.errors import BadSpec, InputChanged
from dataprep_converter.inputs.access import Access
from dataprep_converter.steps import plan_step
from dataprep_converter.steps.conversion import convert_work
from dataprep_converter.tools import repair

KEYED = {"columns": ["user"], "keyEnv": "PEPPER"}


def a_job(root: Path, *, transforms: list[Any] | None = None, overwrite: str = "IfChanged") -> DataPrepJob:
    return parse_job(
        {
            "source": {"jsonl": {"uris": [str(root / "in")]}},
            "transforms": [{"hash": KEYED}] if transforms is None else transforms,
            "output": {"uri": str(root / "out"), "overwrite": overwrite, "shards": {"count": 2}, "format": "jsonl"},
        },
        name="users",
    )


def users(root: Path) -> list[str]:
    lines = [line for file in sorted((root / "out").glob("*.jsonl")) for line in file.read_text().splitlines()]
    return [json.loads(line)["user"] for line in lines]


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PEPPER", "one")
    (tmp_path / "in").mkdir()
    (tmp_path / "in/1.jsonl").write_text("".join(f'{{"user": "ada", "n": {number}}}\n' for number in range(8)))
    return tmp_path


def test_another_key_makes_the_data_set_anew(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first, before = run_job(a_job(root))[0], users(root)
    assert run_job(a_job(root))[0].reused
    monkeypatch.setenv("PEPPER", "two")
    second = run_job(a_job(root))[0]
    assert (second.reused, second.run_id != first.run_id) == (False, True)
    assert len(set(users(root))) == 1
    assert set(users(root)) != set(before)


def test_an_unfinished_run_does_not_go_on_with_another_key(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = plan_step.run_plan_step(a_job(root), Access()).plan
    monkeypatch.setenv("PEPPER", "two")
    assert plan_step.run_plan_step(a_job(root), Access()).plan.head.run_id != plan.head.run_id


def test_a_worker_with_another_key_than_the_plans_is_refused(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    job = a_job(root)
    plan = plan_step.run_plan_step(job, Access()).plan
    monkeypatch.setenv("PEPPER", "two")
    with pytest.raises(InputChanged) as told:
        convert_work.work(job.spec, plan=plan, shards=[], access=Access(), attempt="0", watch=lambda _: None)
    assert str(told.value) == (
        "The environment variable PEPPER, the key of the transform hash, has changed since the job was planned; create a new job for the new key."
    )


def test_a_data_set_is_not_repaired_with_another_key(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run_job(a_job(root))
    shard = min((root / "out").glob("*.jsonl"))
    whole = shard.read_bytes()
    shard.unlink()
    monkeypatch.setenv("PEPPER", "two")
    with pytest.raises(InputChanged, match="The environment variable PEPPER, the key of the transform hash, has changed"):
        repair.repair(str(root / "out"), Access())
    assert (root / "out/_SUCCESS").exists()
    monkeypatch.setenv("PEPPER", "one")
    repair.repair(str(root / "out"), Access())
    assert shard.read_bytes() == whole


def test_a_data_set_is_not_extended_with_another_key(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run_job(a_job(root, overwrite="Extend"))
    shutil.copy(root / "in/1.jsonl", root / "in/2.jsonl")
    monkeypatch.setenv("PEPPER", "two")
    with pytest.raises(BadSpec) as told:
        run_job(a_job(root, overwrite="Extend"))
    assert str(told.value) == (
        "The environment variable PEPPER, the key of the transform hash, doesn't contain the key that made the data set; "
        "use that key, or set output.overwrite: Always, which rebuilds the whole data set."
    )
    monkeypatch.setenv("PEPPER", "one")
    run_job(a_job(root, overwrite="Extend"))
    assert len(set(users(root))) == 1
    assert len(users(root)) == 16


@pytest.mark.parametrize("transforms", [[], [{"hash": {"columns": ["user"]}}]], ids=["no hash", "a hash without a key"])
def test_what_has_no_key_keeps_its_run_id(root: Path, monkeypatch: pytest.MonkeyPatch, transforms: list[Any]) -> None:
    first = plan_step.dry_run(a_job(root, transforms=transforms), Access())
    monkeypatch.setenv("PEPPER", "two")
    assert plan_step.dry_run(a_job(root, transforms=transforms), Access()).run_id == first.run_id
    plan = plan_step.run_plan_step(a_job(root, transforms=transforms), Access()).plan
    assert plan.head.keys == {}


def test_the_key_stands_nowhere_in_the_folder(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PEPPER", "a-marked-pepper-7b1f")
    run_job(a_job(root))
    assert not [file for file in (root / "out").rglob("*") if file.is_file() and b"a-marked-pepper-7b1f" in file.read_bytes()]
