"""Every code path rejects a later release's files with a message that names the file, and modifies no files."""

import hashlib
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.builders.jobs import verified_run
from tests.builders.specs import parse_job
from tests.compat import making
from tests.compat.stored_data_sets import Unpack, job_of
from tests.converter.cli.commandline import code_of

from dataprep_api.dataset.plan import shards
from dataprep_api.dataset.report import Success
from dataprep_api.resources.job import DataPrepJob
from dataprep_converter.core.errors import NewerFormat
from dataprep_converter.dataset.output_folder import OutputFolder
from dataprep_converter.dataset.stored_plan import load_plan
from dataprep_converter.inputs.access import Access
from dataprep_converter.steps import remove
from dataprep_converter.steps.conversion import convert_commit, convert_work
from dataprep_converter.tools import repair
from dataprep_converter.tools.inspect import inspection
from dataprep_converter.tools.verification import verify
from dataprep_reader import open as open_data_set


def newer(path: Path) -> None:
    """Rewrites the file as a later release might."""
    path.write_text(json.dumps(json.loads(path.read_text()) | {"version": 99, "aLaterField": [1]}))


def newer_manifest(path: Path) -> None:
    newer(path)
    success = path.parent.parent.parent / "_SUCCESS"
    said = Success.model_validate_json(success.read_bytes())
    success.write_bytes(said.model_copy(update={"sha256": hashlib.sha256(path.read_bytes()).hexdigest()}).to_bytes())


FILES: dict[str, tuple[str, Callable[[Path], None]]] = {
    "plan": ("*/plan.json", newer),
    "manifest": ("*/manifest.json", newer_manifest),
    "report": ("*/reports/00000000.json", newer),
    "OWNER file": ("OWNER", newer),
}


def a_job(source: dict[str, Any], output: dict[str, Any]) -> DataPrepJob:  # Any: the spec as in YAML
    spec = {"source": source, "output": output}
    return parse_job(spec, name="again")


def replaced(overwrite: str) -> None:
    verified_run(a_job(making.CSV, {"uri": "out", "format": "parquet", "overwrite": overwrite}))


def removed(folder: Path) -> None:
    [*runs] = {path.parent.name for path in (folder / "out" / "_dataprep").glob("*/plan.json")}
    remove.remove("out", Access(), runs=runs)


def loaded(folder: Path) -> tuple[DataPrepJob, Any]:
    [path] = (folder / "out" / "_dataprep").glob("*/plan.json")
    folder_ = OutputFolder("out", Access()).of_run(path.parent.name)
    return job_of(folder), load_plan(folder_, hashlib.sha256(path.read_bytes()).hexdigest())


def worked(folder: Path) -> None:
    job, plan = loaded(folder)
    convert_work.work(job.spec, plan=plan, shards=list(shards(plan.head)), access=Access(), attempt="a", watch=lambda _: None)


def committed(folder: Path) -> None:
    job, plan = loaded(folder)
    convert_commit.commit(job.spec, plan=plan, access=Access())


ALL = {*FILES}
FINISHED: dict[str, tuple[Callable[[Path], object], set[str]]] = {
    "verify": (lambda _: verify("out", Access()), ALL),
    "inspect": (lambda _: inspection.show("out", Access(), records=1, as_json=False, stream=io.StringIO()), {"manifest"}),
    "inspect as JSON": (lambda _: inspection.show("out", Access(), records=1, as_json=True, stream=io.StringIO()), {"manifest"}),
    "inspect as HTML": (lambda _: inspection.html("out", Access(), records=1), {"manifest"}),
    "repair": (lambda _: repair.repair("out", Access()), ALL),
    "copy": (lambda _: verified_run(a_job({"dataset": {"uri": "out"}}, {"uri": "again", "format": "copy"})), ALL - {"OWNER file"}),
    "source": (lambda _: verified_run(a_job({"dataset": {"uri": "out"}}, {"uri": "again"})), {"manifest"}),
    "read": (lambda _: next(iter(open_data_set("out", split="train"))), {"manifest"}),
    "extend": (lambda folder: verified_run(job_of(folder)), ALL),
    "replace": (lambda _: replaced("Always"), {"plan", "OWNER file"}),
    "replace if changed": (lambda _: replaced("IfChanged"), {"plan", "OWNER file"}),
    "remove": (removed, ALL),
}
"""The code paths that use a finished data set, each with the kinds of files that it reads. A job with `fromJob` takes the path `source`."""
UNFINISHED: dict[str, tuple[Callable[[Path], object], set[str]]] = {
    "resume": (lambda folder: verified_run(job_of(folder)), {"plan", "report", "OWNER file"}),
    "work": (worked, {"plan", "report", "OWNER file"}),
    "commit": (committed, {"plan", "report", "OWNER file"}),
    "remove": (removed, {"plan", "report", "OWNER file"}),
}


def refuses(folder: Path, file: str, way: Callable[[Path], object], looked_at: set[str]) -> None:
    pattern, change = FILES[file]
    path = max((folder / "out" / "_dataprep").glob(pattern))
    change(path)
    before = {each: each.read_bytes() for each in (folder / "out").rglob("*") if each.is_file()}
    if file not in looked_at:
        way(folder)
        return
    with pytest.raises(NewerFormat) as refused:
        way(folder)
    assert str(refused.value).startswith(
        f"{path.relative_to(folder)}: the {file} has the format version 99, and this release of dataprep supports versions up to "
    )
    assert {each: each.read_bytes() for each in (folder / "out").rglob("*") if each.is_file()} == before


@pytest.mark.parametrize("way", [*FINISHED])
@pytest.mark.parametrize("file", [*FILES])
def test_a_file_of_a_newer_format_is_refused_by_name_and_nothing_is_touched(stored: Unpack, file: str, way: str) -> None:
    folder = stored("extended")
    making.more(folder / "in", 3)
    refuses(folder, file, *FINISHED[way])


@pytest.mark.parametrize("way", [*UNFINISHED])
@pytest.mark.parametrize("file", ["plan", "report", "OWNER file"])
def test_a_file_of_a_newer_format_is_refused_in_an_unfinished_data_set(stored: Unpack, file: str, way: str) -> None:
    refuses(stored("plain-some-shards"), file, *UNFINISHED[way])


COMMANDS: dict[str, tuple[str, list[str]]] = {
    "verify": ("manifest", ["verify", "out"]),
    "inspect": ("manifest", ["inspect", "out"]),
    "repair": ("manifest", ["repair", "out"]),
    "convert": ("manifest", ["convert", "out", "again", "--format", "parquet", "--workers", "1"]),
    "copy": ("manifest", ["copy", "out", "again", "--workers", "1"]),
    "infer": ("manifest", ["infer", "out"]),
    "run": ("manifest", ["run", "job.yaml", "--workers", "1"]),
    "plan": ("manifest", ["plan", "job.yaml"]),
    "work": ("plan", ["work", "job.yaml", "--run", "RUN", "--plan-sha256", "PLAN", "--index", "0", "--attempt", "0"]),
    "commit": ("plan", ["commit", "job.yaml", "--run", "RUN", "--plan-sha256", "PLAN"]),
    "remove": ("plan", ["remove", "--job", "job.yaml", "--run", "RUN"]),
}


@pytest.mark.parametrize("command", COMMANDS)
def test_each_command_says_so_in_a_line(stored: Unpack, capsys: pytest.CaptureFixture[str], command: str) -> None:
    folder = stored("extended")
    making.more(folder / "in", 3)
    file, words = COMMANDS[command]
    pattern, change = FILES[file]
    path = max((folder / "out" / "_dataprep").glob(pattern))
    change(path)
    known = {"RUN": path.parent.name, "PLAN": hashlib.sha256(path.read_bytes()).hexdigest()}
    assert code_of(*(known.get(word, word) for word in words)) == 5
    said = capsys.readouterr().err
    assert f"{path.relative_to(folder)}: the {file} has the format version 99" in said
    assert "Traceback" not in said
