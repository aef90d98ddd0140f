"""This release reads, verifies, extends, repairs and resumes an earlier release's output, or rejects the output and names the fault."""

import hashlib
import io
import json
from pathlib import Path

import pytest
from tests.builders.jobs import run_job, verified_run
from tests.builders.specs import parse_job
from tests.compat import making
from tests.compat.stored_data_sets import Unpack, job_of, visible

from dataprep_api.dataset import run_id
from dataprep_api.dataset.plan import shards
from dataprep_api.resources.job import DataPrepJob
from dataprep_converter.core.errors import BadSpec
from dataprep_converter.dataset.output_folder import OutputFolder
from dataprep_converter.dataset.stored_plan import load_plan
from dataprep_converter.inputs.access import Access
from dataprep_converter.steps.conversion import convert_commit, convert_work
from dataprep_converter.tools import repair
from dataprep_converter.tools.inspect import inspection
from dataprep_converter.tools.verification import verify
from dataprep_reader import open as open_data_set

FINISHED = [*making.SETS, "copy"]
UNFINISHED = [f"{name}-{state}" for name in making.UNFINISHED for state in making.STATES]
RECORDS = making.ROWS
KEYED = {"hash"}
"""These data sets were made when the key wasn't yet part of the run id."""


def values(folder: Path) -> list[int]:
    manifest = verify(str(folder), Access())
    return sorted(
        int(value) for split in manifest.splits for batch in open_data_set(str(folder), split=split.name) for value in batch["x"].ravel()
    )


def fault_of(job: DataPrepJob) -> str | None:
    """Return why this release can't continue output that was made with version 1 of every part, or None if it can."""
    return run_id.fault_of_versions({}, job.spec)


def repaired_or_refused(fault: str | None) -> bool:
    """Try to repair the data set, and return whether it was repaired.

    If there is a fault, check that the repair is refused with a message that names the fault.
    """
    if fault is None:
        repair.repair("out", Access())
        return True
    with pytest.raises(BadSpec) as refused:
        repair.repair("out", Access())
    assert fault in str(refused.value)
    return False


@pytest.mark.parametrize("name", FINISHED)
def test_a_stored_data_set_verifies_and_can_be_inspected(stored: Unpack, name: str) -> None:
    stored(name)
    manifest = verify("out", Access(), every_record=True)
    shown = io.StringIO()
    inspection.show("out", Access(), records=2, as_json=True, stream=shown)
    assert json.loads(shown.getvalue())["manifest"] == json.loads(manifest.to_bytes())
    assert manifest.run_id in inspection.html("out", Access(), records=2)


@pytest.mark.parametrize("name", FINISHED)
def test_a_stored_data_set_is_repaired_to_its_own_bytes_or_refused_by_name(stored: Unpack, name: str) -> None:
    folder = stored(name)
    before = visible(folder / "out")
    lost = next(iter(before))
    (folder / "out" / lost).unlink()
    fault = fault_of(job_of(folder)) if name != "copy" else None
    if repaired_or_refused(fault):
        assert visible(folder / "out") == before
        verify("out", Access(), every_record=True)


@pytest.mark.parametrize("name", ["shuffled", "tfrecord", "codes", "inferred", "vocabulary"])
def test_a_stored_data_set_whose_plan_is_lost_is_planned_again_by_its_own_rules(stored: Unpack, name: str) -> None:
    folder = stored(name)
    before = visible(folder / "out")
    next((folder / "out" / "_dataprep").glob("*/plan.json")).unlink()
    if repaired_or_refused(fault_of(job_of(folder))):
        assert visible(folder / "out") == before


@pytest.mark.parametrize("name", FINISHED)
def test_a_stored_data_set_is_reused_or_made_again_if_a_rule_has_changed(stored: Unpack, name: str) -> None:
    folder = stored(name)
    job = job_of(folder)
    before = verify("out", Access())
    if job.spec.output.overwrite == "Never":
        output = job.spec.output.model_copy(update={"overwrite": "IfChanged"})
        job = job.model_copy(update={"spec": job.spec.model_copy(update={"output": output})})
    planned, _ = run_job(job)
    after = verify("out", Access(), every_record=True)
    # The plans of these jobs have neither the part `textUnits` nor the part `joins`, because the inputs and the records are small.
    new_rules = run_id.versions(job.spec).keys() - {"textUnits", "joins"}
    is_as_it_was = name in ("copy", "extended") or (name not in KEYED and not new_rules)
    assert (after.records_in, after.records_out, after.bad) == (before.records_in, before.records_out, before.bad)
    assert planned.reused is is_as_it_was
    assert (after == before) is is_as_it_was


@pytest.mark.parametrize("name", UNFINISHED)
def test_an_unfinished_data_set_continues_or_is_made_again_with_all_records(stored: Unpack, name: str) -> None:
    folder = stored(name)
    begun = max((folder / "out" / "_dataprep").glob("*/plan.json")).read_bytes()
    expected = [number * 1000 + row for number in range(3 if "growing" in name else 2) for row in range(RECORDS // 2)]
    fault = fault_of(job_of(folder))
    if "growing" in name and fault is not None:
        with pytest.raises(BadSpec) as refused:
            verified_run(job_of(folder))
        assert fault in str(refused.value)
        return
    manifest = verified_run(job_of(folder))
    assert manifest.records_out == len(expected)
    # A job that began with rules that this release still supports is continued, not restarted.
    assert (folder / "out" / "_dataprep" / manifest.run_id / "plan.json").read_bytes() == begun or fault is not None or "growing" in name
    if manifest.format == "tfrecord":
        assert values(folder / "out") == expected


@pytest.mark.parametrize("name", [name for name in UNFINISHED if not name.startswith("growing")])
def test_workers_continue_with_a_stored_plan_or_reject_it_by_name(stored: Unpack, name: str) -> None:
    folder = stored(name)
    job = job_of(folder)
    [path] = (folder / "out" / "_dataprep").glob("*/plan.json")
    sha256 = hashlib.sha256(path.read_bytes()).hexdigest()
    plan = load_plan(OutputFolder("out", Access()).of_run(path.parent.name), sha256)
    fault = fault_of(job)
    every = list(shards(plan.head))
    if fault is not None:
        with pytest.raises(BadSpec) as refused:
            convert_work.work(job.spec, plan=plan, shards=every, access=Access(), attempt="a", watch=lambda _: None)
        assert fault in str(refused.value)
        return
    convert_work.work(job.spec, plan=plan, shards=every, access=Access(), attempt="a", watch=lambda _: None)
    convert_commit.commit(job.spec, plan=plan, access=Access())
    assert verify("out", Access(), every_record=True).records_out == RECORDS


@pytest.mark.parametrize("name", ["extended", "growing-all-shards"])
def test_a_stored_data_set_is_extended(stored: Unpack, name: str) -> None:
    folder = stored(name)
    # Files of an unfinished extension aren't part of the data set yet.
    before = {
        file: content
        for file, content in visible(folder / "out").items()
        if name == "extended" or file.endswith(("0.tfrecords", "1.tfrecords"))
    }
    making.more(folder / "in", 3)
    verified_run(job_of(folder))
    after = visible(folder / "out")
    assert {file: after[file] for file in before} == before
    assert values(folder / "out") == [number * 1000 + row for number in range(4) for row in range(RECORDS // 2)]


@pytest.mark.parametrize("name", FINISHED)
def test_a_stored_data_set_is_copied(stored: Unpack, name: str) -> None:
    folder = stored(name)
    job = {"source": {"dataset": {"uri": "out"}}, "output": {"uri": "again", "format": "copy"}}
    verified_run(parse_job(job, name="again"))
    assert visible(folder / "again") == visible(folder / "out")


@pytest.mark.parametrize("name", ["tfrecord", "inferred", "codes", "images"])
def test_a_stored_data_set_is_a_source(stored: Unpack, name: str) -> None:
    stored(name)
    job = {"source": {"dataset": {"uri": "out"}}, "output": {"uri": "again", "format": "parquet"}}
    again = verified_run(parse_job(job, name="again"))
    assert again.records_out == verify("out", Access()).records_out
