"""Jobs that are made from keywords or from files, and run on this machine."""

import asyncio
import gc
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import dataprep_io as dp
from dataprep_converter.runtime import allocator

ROWS = "kind,size\na,1\nb,2\na,3\n"


def a_spec(folder: Path) -> dict[str, Any]:
    """Return the keywords of a job that reads a small CSV file."""
    (folder / "rows.csv").write_text(ROWS)
    return {
        "source": {"csv": {"uris": [str(folder / "rows.csv")], "header": True}},
        "labels": [{"name": "kind"}],
        "output": {"uri": str(folder / "set"), "format": "jsonl"},
    }


def test_a_job_from_keywords_runs_here(tmp_path: Path) -> None:
    result = dp.Job("rows", **a_spec(tmp_path)).run(quiet=True, workers=1)
    assert (result.records, dict(result.splits), result.shards) == (3, {"train": 3}, 1)
    assert result.is_reproducible
    assert [row["size"] for batch in result.open(as_="arrow") for row in batch.to_pylist()] == [1, 2, 3]


def test_a_run_leaves_the_garbage_collector_as_it_was(tmp_path: Path) -> None:
    allocator.tune_allocator.cache_clear()
    gc.unfreeze()
    thresholds = gc.get_threshold()
    dp.Job("rows", **a_spec(tmp_path)).run(quiet=True, workers=1)
    assert allocator.tune_allocator.cache_info().currsize == 1  # the run has tuned the allocator
    assert (gc.get_threshold(), gc.get_freeze_count()) == (thresholds, 0)


def test_a_second_run_makes_the_same_data_set(tmp_path: Path) -> None:
    spec = a_spec(tmp_path)
    spec["output"]["overwrite"] = "IfChanged"
    first = dp.Job("rows", **spec).run(quiet=True, workers=1)
    assert dp.Job("rows", **spec).run(quiet=True, workers=1) == first


def test_a_changed_job_replaces_what_failed_in_this_process(tmp_path: Path) -> None:
    spec = a_spec(tmp_path)
    (tmp_path / "rows.csv").write_text(ROWS + "a,none\n")
    spec["source"]["csv"]["header"] = False
    spec["source"]["csv"]["skipLines"] = 1
    spec["source"]["csv"]["columns"] = [{"name": "kind", "type": "String"}, {"name": "size", "type": "Int64"}]
    with pytest.raises(dp.BadData, match="none"):
        dp.Job("rows", **spec).run(quiet=True, workers=1)
    result = dp.Job("rows", **spec, on_bad_record={"policy": "Skip"}).run(quiet=True, workers=1)
    assert (result.records, result.bad_records) == (3, 1)


def test_the_keywords_have_the_names_of_python(tmp_path: Path) -> None:
    job = dp.Job("rows", on_bad_record={"policy": "Skip"}, allow_empty=True, **a_spec(tmp_path))
    assert job.spec.on_bad_record.policy == "Skip"
    assert job.spec.allow_empty


def test_a_value_can_be_a_model(tmp_path: Path) -> None:
    spec = a_spec(tmp_path)
    model = dp.Job("rows", **spec).spec.output
    assert dp.Job("rows", **{**spec, "output": model}).to_yaml() == dp.Job("rows", **spec).to_yaml()


def test_a_path_can_be_a_value(tmp_path: Path) -> None:
    spec = a_spec(tmp_path)
    spec["output"]["uri"] = tmp_path / "set"
    assert dp.Job("rows", **spec).spec.output.uri == str(tmp_path / "set")


@pytest.mark.parametrize("workers", [0, -1, "2", 1.5])
def test_an_impossible_number_of_workers_is_named(tmp_path: Path, workers: Any) -> None:
    with pytest.raises(dp.BadSpec, match="workers must be a whole number of at least 1; got "):
        dp.Job("rows", **a_spec(tmp_path)).run(quiet=True, workers=workers)


def test_all_faults_are_named(tmp_path: Path) -> None:
    spec = a_spec(tmp_path)
    with pytest.raises(dp.SpecError, match="^sourc: a job has no such field. Did you mean 'source'?"):
        dp.Job("rows", sourc={}, **spec)
    with pytest.raises(dp.SpecError, match="spec.output.formt: unknown field; did you mean format?"):
        dp.Job("rows", **{**spec, "output": {"uri": "x", "formt": "csv"}})
    with pytest.raises(dp.SpecError, match="Kubernetes refuses the name 'My rows'.* write my-rows"):
        dp.Job("My rows", **spec)


def test_a_job_can_be_written_to_a_file_and_read_from_it(tmp_path: Path) -> None:
    job = dp.Job("rows", **a_spec(tmp_path))
    (tmp_path / "job.yaml").write_text(job.to_yaml())
    again = dp.Job.from_yaml(tmp_path / "job.yaml")
    assert (again.name, again.spec, again.to_yaml()) == (job.name, job.spec, job.to_yaml())
    assert repr(again) == f"<Job rows: csv to jsonl at {tmp_path}/set>"


def test_a_fault_in_a_file_has_its_line(tmp_path: Path) -> None:
    text = dp.Job("rows", **a_spec(tmp_path)).to_yaml().replace("format: jsonl", "format: json")
    (tmp_path / "job.yaml").write_text(text)
    with pytest.raises(dp.SpecError) as caught:
        dp.Job.from_yaml(tmp_path / "job.yaml")
    assert caught.value.faults[0].place.startswith(f"{tmp_path}/job.yaml:")


def test_a_cron_job_is_no_job(tmp_path: Path) -> None:
    job = dp.Job("rows", **a_spec(tmp_path)).to_yaml()
    template = job[job.index("spec:") :].replace("\n", "\n    ")
    text = job[: job.index("spec:")].replace("DataPrepJob", "DataPrepCronJob")
    (tmp_path / "cron.yaml").write_text(f'{text}spec:\n  schedule: "0 3 * * *"\n  jobTemplate:\n    {template}\n')
    with pytest.raises(dp.SpecError, match="kind: expected DataPrepJob, got DataPrepCronJob"):
        dp.Job.from_yaml(tmp_path / "cron.yaml")


def test_a_job_with_coroutines_runs_here(tmp_path: Path) -> None:
    assert asyncio.run(dp.AsyncJob("rows", **a_spec(tmp_path)).run(quiet=True, workers=1)).records == 3


def test_what_needs_a_cluster_says_so_before_the_submit(tmp_path: Path) -> None:
    job = dp.Job("rows", **a_spec(tmp_path))
    assert job.namespace is None
    with pytest.raises(
        dp.ClusterError, match=r"The job rows isn't submitted: call submit\(\), or find a submitted job with Job\.attach\(\)"
    ):
        job.wait()


@pytest.mark.slow
def test_a_script_with_several_workers_needs_no_main_guard(tmp_path: Path) -> None:
    spec = a_spec(tmp_path)
    (tmp_path / "rows.csv").write_text("kind,size\n" + "".join(f"k{n % 3},{n}\n" for n in range(20_000)))
    spec["output"]["shards"] = {"count": 4}
    spec["workers"] = {"parallelism": 4}
    script = tmp_path / "script.py"
    script.write_text(
        "import dataprep_io as dp\n"
        "from dataprep_converter.steps import pool\n"
        "pool.INLINE_BYTES = 0\n"  # use worker processes even for a small input
        "print('begin')\n"
        f"print(dp.Job('rows', **{spec!r}).run(workers=2, quiet=True).records)\n"
    )
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=120, check=False)
    assert (done.stdout, done.stderr, done.returncode) == ("begin\n20000\n", "", 0)
