"""A job's kind depends only on its spec."""

import pickle
from typing import Any

import pytest

from dataprep_api.spec import DataPrepJobSpec
from dataprep_converter.core.errors import BadSpec
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
