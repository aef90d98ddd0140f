"""With `overwrite: Never`, an unfinished run is replaced if its process has ended.

A run is not replaced if its process might still be working, or if it belongs to somebody else.
"""

import json
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from tests.builders.specs import parse_job
from tests.converter.cli.commandline import dataprep, environment

from dataprep_api import names
from dataprep_api.dataset.plan import Maker, Owner
from dataprep_converter.core.errors import OutputExists
from dataprep_converter.inputs.access import Access
from dataprep_converter.runtime import makers
from dataprep_converter.steps.plan_step import PlannedRun, run_plan_step
from dataprep_converter.tools.verification import verify

REFUSED = "belongs to the unfinished run "
STAYS = "import time; from dataprep_converter.cli import commands, display; display.Display.planned = lambda *_: time.sleep(600); commands.main()"
"""A command that claims its output and then keeps running."""
COLUMNS = [{"name": "x", "type": "Float32"}, {"name": "y", "type": "Int64"}]


def a_spec(folder: Path, **fields: Any) -> dict[str, Any]:
    if not (folder / "rows.csv").exists():
        (folder / "rows.csv").write_text("1,0\n2,1\nthree,0\n")
    source = {"csv": {"uris": [str(folder / "rows.csv")], "columns": COLUMNS}}
    return {"source": source, "output": {"uri": str(folder / "out"), "format": "jsonl"}} | fields


def written(folder: Path, spec: Mapping[str, Any], *, name: str = "rows") -> Path:
    document = {"apiVersion": "dataprep.io/v1alpha1", "kind": "DataPrepJob", "metadata": {"name": name}, "spec": spec}
    (folder / "job.yaml").write_text(json.dumps(document))
    return folder / "job.yaml"


def owner_of(folder: Path) -> Owner:
    return Owner.model_validate_json((folder / "out" / names.OWNER).read_bytes())


def abandoned(folder: Path) -> Maker:
    """Leaves an unfinished run behind. Returns the process that began this run. The process has ended."""
    assert dataprep("run", written(folder, a_spec(folder))).returncode == 3
    (maker,) = owner_of(folder).makers
    return maker


def replanned(folder: Path, *, name: str = "rows") -> PlannedRun:
    """Plans the job after a change to its spec: bad records are now left out."""
    return run_plan_step(parse_job(a_spec(folder, onBadRecord={"policy": "Skip", "maxCount": 1}), name=name), Access())


def with_makers(folder: Path, *found: Maker) -> None:
    (folder / "out" / names.OWNER).write_bytes(owner_of(folder).model_copy(update={"makers": [*found]}).to_bytes())


@pytest.mark.slow
def test_a_failed_job_runs_again_after_a_change_of_its_spec(tmp_path: Path) -> None:
    failed = abandoned(tmp_path)
    before = owner_of(tmp_path).run_id
    spec = a_spec(tmp_path, onBadRecord={"policy": "Skip", "maxFraction": 0.5})
    done = dataprep("run", written(tmp_path, spec))
    assert done.returncode == 0, done.stderr
    assert (
        f"warning: the unfinished run {before} of this job is replaced: its process has ended, and the job or its inputs have changed"
        in done.stderr.splitlines()
    )
    assert failed.job == "rows"
    assert verify(str(tmp_path / "out"), Access()).records_out == 2
    # The OWNER of a finished data set names no process, so older releases can read it.
    assert json.loads((tmp_path / "out" / names.OWNER).read_text()).keys() == {"runId", "epoch"}
    again = dataprep("run", written(tmp_path, spec | {"shuffle": {"seed": 1}}))
    assert again.returncode == 5
    assert "holds the finished data set of run" in again.stderr


@pytest.mark.slow
def test_a_killed_run_is_made_anew_and_one_at_work_is_protected(tmp_path: Path) -> None:
    begun = subprocess.Popen(
        [sys.executable, "-c", STAYS, "run", written(tmp_path, a_spec(tmp_path))], env=environment(), stderr=subprocess.DEVNULL
    )
    with begun:
        while not (tmp_path / "out" / names.OWNER).exists() or not owner_of(tmp_path).makers:
            assert begun.poll() is None
            time.sleep(0.05)
        with pytest.raises(
            OutputExists, match=rf"of the job rows, whose process {begun.pid} on .* might still be running; overwrite is Never"
        ):
            replanned(tmp_path)
        begun.send_signal(signal.SIGKILL)
        # The killed process is a zombie until its parent asks for its exit code.
        deadline = time.monotonic() + 30
        while not makers.has_ended(owner_of(tmp_path).makers[0]):
            assert time.monotonic() < deadline
            time.sleep(0.01)
    assert "is replaced: its process has ended" in replanned(tmp_path).result.warnings[0]


@pytest.mark.slow
def test_only_a_run_whose_processes_have_surely_ended_is_replaced(tmp_path: Path) -> None:
    dead = abandoned(tmp_path)
    alive = makers.this_process("rows")
    assert alive is not None
    for kept in (
        (dead.model_copy(update={"host": "another"}),),
        (dead.model_copy(update={"machine": "started earlier"}),),
        (dead, alive),
        (dead.model_copy(update={"job": "another"}),),
        (dead.model_copy(update={"user": dead.user + 1}),),
        (),
    ):
        with_makers(tmp_path, *kept)
        with pytest.raises(OutputExists, match=REFUSED):
            replanned(tmp_path)
    with_makers(tmp_path, dead)
    with pytest.raises(OutputExists, match=f"{REFUSED}[0-9a-f]+ of the job rows of the user {dead.user}; overwrite is Never"):
        replanned(tmp_path, name="other-rows")
    # This process has the pid of the process that ended, but a different start time.
    with_makers(tmp_path, alive.model_copy(update={"started": alive.started - 1}))
    planned = replanned(tmp_path)
    assert owner_of(tmp_path).run_id == planned.result.run_id
    # The plan step alone doesn't know which process will do the work.
    assert owner_of(tmp_path).makers == []


@pytest.mark.slow
def test_the_same_run_keeps_the_processes_that_may_be_at_work(tmp_path: Path) -> None:
    dead = abandoned(tmp_path)
    alive = makers.this_process("rows")
    assert alive is not None
    elsewhere = dead.model_copy(update={"host": "another"})
    with_makers(tmp_path, dead, elsewhere)
    job = parse_job(a_spec(tmp_path), name="rows")
    run_plan_step(job, Access(), maker=alive)
    assert owner_of(tmp_path).makers == [elsewhere, alive]
    run_plan_step(job, Access())
    assert owner_of(tmp_path).makers == []
    run_plan_step(job, Access(), maker=alive)
    assert owner_of(tmp_path).makers == []


def test_a_process_is_known_by_its_start() -> None:
    ended = subprocess.run([sys.executable, "-c", "import os; print(os.getpid())"], capture_output=True, text=True, check=True)
    this = makers.this_process("a job that this process has not run")
    assert this is not None
    assert not makers.has_ended(this)
    assert makers.has_ended(this.model_copy(update={"pid": int(ended.stdout)}))
    assert makers.has_ended(this.model_copy(update={"started": this.started + 1}))


def test_a_process_that_goes_on_has_ended_its_work_when_no_other_thread_runs_the_job() -> None:
    """Such a process can be a notebook's kernel, which continues after a failed run."""
    this = makers.this_process("played by a thread")
    assert this is not None
    with ThreadPoolExecutor(1) as other:
        work = makers.at_work(this.job)
        other.submit(work.__enter__).result()
        with makers.at_work(this.job):
            assert not makers.has_ended(this)
        assert not makers.has_ended(this)
        other.submit(work.__exit__, None, None, None).result()
    with makers.at_work(this.job):
        assert makers.has_ended(this)
    assert not makers.has_ended(this.model_copy(update={"job": "another"}))


def test_a_hidden_process_may_be_at_work(monkeypatch: pytest.MonkeyPatch) -> None:
    hidden = makers.this_process("x")
    assert hidden is not None

    def deny(*_: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    # Linux denies access to other users' processes if /proc is mounted with hidepid=1.
    monkeypatch.setattr(makers, "_start_of", deny)
    assert not makers.has_ended(hidden)
