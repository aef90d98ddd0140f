"""Tests of the modules that a command loads when it starts. A command that loads unneeded libraries is slow even if it does little work."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.availability import unavailable
from tests.builders.specs import parse_job
from tests.converter.cli.commandline import environment, mnist_run, new_dataprep

from dataprep_converter import __version__
from dataprep_converter.inputs.access import Access
from dataprep_converter.steps.plan_step import run_plan_step

_THEN_TELL = "\nfinally:\n    print('loaded', *sorted({name.partition('.')[0] for name in sys.modules}))"

_UNTIL_FIRST_READ = """
import os, sys

def tell(event, arguments):
    if event == "open" and isinstance(arguments[0], str) and arguments[0].startswith(sys.argv[1]):
        os.write(1, " ".join(sys.modules).encode())
        os._exit(0)

sys.addaudithook(tell)
from dataprep_converter.cli.commands import main
main(sys.argv[2:])
"""
_NEEDED_LATER = {
    "dataprep_converter.inputs.archives",  # the input isn't an archive
    "dataprep_converter.core.yaml_file",  # a pod's job is JSON
    "dataprep_converter.readers.shuffle.task_reader",  # the plan has no shuffle
    "dataprep_converter.runtime.scan_results",  # the plan exists already
    "dataprep_converter.steps.conversion.gather",
    "dataprep_converter.steps.conversion.table_output",  # the output isn't a table
    "dataprep_converter.steps.draft",
    "dataprep_api.resources.cron",
    "dataprep_api.resources.profile",
    "http.client",  # the first report is sent a second later
    "pyarrow.compute",  # needed only for the records
    "subprocess",
    "yaml",
}
"""Modules that a worker with a simple job imports after it has begun to read its input, or not at all."""


def loaded_by(*arguments: str | Path) -> set[str]:
    """Returns the names of the packages that a command has loaded when it ends."""
    words = [str(argument) for argument in arguments]
    return loaded_in(f"import sys\nfrom dataprep_converter.cli.commands import main\ntry:\n    main({words!r}){_THEN_TELL}")


def loaded_in(program: str) -> set[str]:
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=300, env=environment())
    assert "Traceback" not in done.stderr, done.stderr
    return set(done.stdout.strip().splitlines()[-1].split()[1:])


def test_help_loads_neither_arrow_nor_models() -> None:
    assert loaded_by("--help").isdisjoint({"numpy", "pyarrow", "pydantic", "yaml", "rich"})


def test_an_explanation_loads_no_model() -> None:
    assert loaded_by("explain", "output").isdisjoint({"numpy", "pyarrow", "pydantic", "yaml", "rich"})


def test_the_version_is_the_packages() -> None:
    assert new_dataprep("--version").stdout == f"dataprep {__version__}\n"


@pytest.mark.slow
def test_a_job_runs_without_pandas_and_rich(few: Path, tmp_path: Path) -> None:
    loaded = loaded_by("run", *mnist_run(few, tmp_path / "out"))
    assert (tmp_path / "out/_SUCCESS").is_file()
    assert "pyarrow" in loaded
    assert loaded.isdisjoint({"pandas", "rich"})


@pytest.mark.slow
def test_a_worker_loads_only_what_it_needs_until_its_first_read(tmp_path: Path) -> None:
    source = tmp_path / "in" / "table.csv"
    source.parent.mkdir()
    source.write_text("a,b\n1,2\n")
    spec = {"source": {"csv": {"uris": [str(source)], "header": True}}, "output": {"uri": str(tmp_path / "out")}}
    job = parse_job(spec)
    planned = run_plan_step(job, Access()).result
    file = tmp_path / "job.json"
    file.write_text(json.dumps({"apiVersion": job.api_version, "kind": job.kind, "metadata": {"name": "x"}, "spec": spec}))
    pod = {"DATAPREP_MOUNTS": str(tmp_path), "DATAPREP_TERMINATION_LOG": str(tmp_path / "log")}

    words = ["work", "--job", str(file), "--run", planned.run_id, "--plan-sha256", planned.plan_sha256, "--index", "0"]
    done = subprocess.run(
        [sys.executable, "-c", _UNTIL_FIRST_READ, str(source), *words],
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
        env=environment(pod),
    )
    loaded = set(done.stdout.split())
    assert "pyarrow" in loaded
    assert loaded & _NEEDED_LATER == set()


@pytest.mark.slow
def test_the_collector_rests_only_until_a_worker_reads(tmp_path: Path) -> None:
    """`plan` and `work` raise the garbage collector's threshold only while they start. Afterwards, all commands have the same threshold."""
    source = tmp_path / "in" / "table.csv"
    source.parent.mkdir()
    source.write_text("a,b\n1,2\n")
    spec = {"source": {"csv": {"uris": [str(source)], "header": True}}, "output": {"uri": str(tmp_path / "out")}}
    file, copy = tmp_path / "job.json", tmp_path / "copy.json"
    head = {"apiVersion": "dataprep.io/v1alpha1", "kind": "DataPrepJob", "metadata": {"name": "x"}}
    file.write_text(json.dumps({**head, "spec": spec}))
    of_run = ["--run", *planned_by(spec)]
    copied = {"source": {"dataset": {"uri": str(tmp_path / "out")}}, "output": {"uri": str(tmp_path / "copied"), "format": "copy"}}
    copy.write_text(json.dumps({**head, "spec": copied}))
    assert thresholds_of("plan", "--job", file) == [200_000, 10_000]
    assert thresholds_of("plan", "--dry-run", "--job", file) == [200_000, 10_000]
    assert thresholds_of("work", "--job", file, *of_run, "--index", "0") == [200_000, 10_000]
    assert thresholds_of("commit", "--job", file, *of_run) == [10_000]
    assert thresholds_of("scan", "--job", file, "--scan", "0" * 56, "--parts", "1", "--index", "0") == [10_000]
    assert thresholds_of("verify", tmp_path / "out") == [10_000]
    assert thresholds_of("infer", source) == [10_000]
    assert thresholds_of("work", "--job", copy, "--run", *planned_by(copied), "--index", "0") == [200_000, 10_000]


def planned_by(spec: dict[str, Any]) -> list[str]:
    """Plans the job in this process. Returns arguments that name the plan, beginning with the run id."""
    planned = run_plan_step(parse_job(spec), Access()).result
    return [planned.run_id, "--plan-sha256", planned.plan_sha256]


def thresholds_of(*arguments: str | Path) -> list[int]:
    """Runs a command that succeeds. Returns the thresholds of the garbage collector that it sets, in order, without repetitions."""
    program = (
        "import gc, sys\nfrom dataprep_converter.cli.commands import main\nset_threshold, found = gc.set_threshold, []\n"
        "def noting(number):\n    found.append(number)\n    set_threshold(number)\n"
        "gc.set_threshold = noting\ntry:\n    main(sys.argv[1:])\nfinally:\n    print()\n    print(*dict.fromkeys(found))"
    )
    words = [sys.executable, "-c", program, *map(str, arguments)]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=300, env=environment())
    assert done.returncode == 0, done.stderr
    return [int(number) for number in done.stdout.splitlines()[-1].split()]


@pytest.mark.slow
def test_arrow_knows_what_a_plugin_makes_with_pandas(tmp_path: Path) -> None:
    if subprocess.run([sys.executable, "-c", "import pandas"], capture_output=True, check=False).returncode:
        unavailable("pandas, which comes with the dev group")
    (tmp_path / "made.py").write_text("import pandas\n\ndef column():\n    return pandas.Series([1.0, None])\n")
    program = (
        f"import os, sys\nos.environ['DATAPREP_CODE'] = {str(tmp_path)!r}\n"
        "from dataprep_converter.runtime import without_pandas\nwithout_pandas.hide()\n"
        "import pyarrow as pa\nfrom dataprep_converter.runtime import plugins\n"
        "assert 'pandas' not in sys.modules\n"
        "column = plugins.load('made:column', of='map')\n"
        "assert pa.array(column()).null_count == 1\n"
        "print('loaded')"
    )
    assert loaded_in(program) == set()
