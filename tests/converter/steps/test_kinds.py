"""A job's kind depends only on its spec."""

import inspect
import pickle
import subprocess
import sys
from collections.abc import Callable, Mapping
from typing import Any, Final

import pytest

from dataprep_api.spec import DataPrepJobSpec
from dataprep_converter.core.errors import BadSpec
from dataprep_converter.steps import copy_job, script_commit, script_job
from dataprep_converter.steps.conversion import convert_commit, convert_plan, convert_work
from dataprep_converter.steps.kinds import Conversion, Copy, Kind, Script, kind_of

ROWS = {"source": {"jsonl": {"uris": ["in"]}}}
DATA_SET = {"source": {"dataset": {"uri": "in"}}}
PROGRAM = {"script": {"command": ["make"], "outputs": ["*.tfrecords"]}}


def a_spec(fields: dict[str, Any], format_: str) -> DataPrepJobSpec:
    return DataPrepJobSpec.model_validate({**fields, "output": {"uri": "out", "format": format_}})


@pytest.mark.parametrize(
    ("fields", "format_", "kind", "runs_code"),
    [
        pytest.param(ROWS, "tfrecord", Conversion, True, id="records of a source"),
        pytest.param(DATA_SET, "parquet", Conversion, True, id="a data set in another format"),
        pytest.param(DATA_SET, "copy", Copy, False, id="a data set as it is"),
        pytest.param(PROGRAM, "tfrecord", Script, True, id="a program of the user's own"),
    ],
)
def test_a_job_has_the_kind_of_its_source_and_format(fields: dict[str, Any], format_: str, kind: type[Kind], runs_code: bool) -> None:
    found = kind_of(a_spec(fields, format_))
    assert type(found) is kind
    assert found.runs_code is runs_code
    assert type(pickle.loads(pickle.dumps(found))) is kind, "worker processes get it"  # noqa: S301  # our own bytes


def test_a_script_has_no_work_step() -> None:
    with pytest.raises(BadSpec, match="A job with a script has no work step: its program runs instead"):
        kind_of(a_spec(PROGRAM, "tfrecord")).work()  # type: ignore[call-arg]  # for any arguments


STEPS: Final[Mapping[type[Kind], Mapping[str, Callable[..., Any]]]] = {
    Conversion: {
        "check_overlaps": convert_plan.check_overlaps,
        "source_uris": convert_plan.source_uris,
        "work": convert_work.work,
        "commit": convert_commit.commit,
    },
    Copy: {
        "check_overlaps": copy_job.check_overlaps,
        "source_uris": convert_plan.source_uris,
        "plan": copy_job.plan,
        "work": copy_job.work,
        "commit": copy_job.commit,
    },
    Script: {
        "check_overlaps": script_job.check_overlaps,
        "source_uris": script_job.source_uris,
        "plan": script_job.plan,
        "commit": script_commit.commit,
    },
}
"""The function that each kind calls for a step."""


@pytest.mark.parametrize(
    ("kind", "step"), [pytest.param(kind, step, id=f"{kind.__name__} {step}") for kind, steps in STEPS.items() for step in steps]
)
def test_a_step_is_a_function_with_the_parameters_of_the_protocol(kind: type[Kind], step: str) -> None:
    of_kind = list(inspect.signature(getattr(Kind, step)).parameters.values())[1:]
    of_function = inspect.signature(STEPS[kind][step]).parameters
    passed = [(parameter.name, parameter.kind) for parameter in of_kind]
    assert [(name, of_function[name].kind) for name, _ in passed] == passed
    optional = set(of_function) - {name for name, _ in passed}
    assert all(of_function[name].default is not inspect.Parameter.empty for name in optional)


def test_a_worker_imports_only_the_work_step() -> None:
    program = (
        "import sys\n"
        "from dataprep_converter.steps import kinds\n"
        "from dataprep_converter.steps.conversion.convert_work import work\n"
        "print(*(name.rpartition('.')[2] for name in sys.modules if name.startswith('dataprep_converter.steps.')))\n"
    )
    loaded = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.split()
    assert not set(loaded) & {"convert_plan", "convert_commit", "copy_job", "script_job", "script_commit", "extend", "pool"}
