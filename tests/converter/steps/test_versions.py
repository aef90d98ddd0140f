"""`output.version`: each version is a separate data set, in a folder below `output.uri`."""

from pathlib import Path
from typing import Any

import pytest
from tests.builders.jobs import run_job
from tests.builders.specs import parse_job

from dataprep_api.dataset import run_id
from dataprep_api.errors import SpecError
from dataprep_api.resources.job import DataPrepJob
from dataprep_converter.core.errors import OutputExists
from dataprep_converter.inputs.access import Access
from dataprep_converter.tools.verification import verify


def a_job(root: Path, **output: Any) -> DataPrepJob:
    spec = {
        "params": {"DATE": "2026-01-31"},
        "source": {"text": {"uris": [str(root / "in.txt")]}},
        "output": {"uri": str(root / "out"), **output},
    }
    return parse_job(spec, name="lines")


def test_each_version_is_a_data_set_of_its_own_and_older_ones_stay(tmp_path: Path) -> None:
    (tmp_path / "in.txt").write_text("a\nb\n")
    run_job(a_job(tmp_path, version="v1"))
    before = {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in (tmp_path / "out").rglob("*") if path.is_file()}
    (tmp_path / "in.txt").write_text("a\nb\nc\n")
    run_job(a_job(tmp_path, version="v2"))
    assert {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in before} == before
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["v1", "v2"]
    assert [verify(str(tmp_path / "out" / version), Access()).records_out for version in ("v1", "v2")] == [2, 3]


def test_a_version_that_is_there_is_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "in.txt").write_text("a\n")
    run_job(a_job(tmp_path, version="v1"))
    (tmp_path / "in.txt").write_text("b\n")
    with pytest.raises(OutputExists, match=r"out/v1 holds the finished data set"):
        run_job(a_job(tmp_path, version="v1"))


def test_the_version_is_a_part_of_the_uri_and_may_be_a_param(tmp_path: Path) -> None:
    output = a_job(tmp_path, uri="s3://data/set/", version="${DATE}").spec.output
    assert (output.uri, output.version) == ("s3://data/set/2026-01-31", None)


def test_what_is_parsed_can_be_parsed_again(tmp_path: Path) -> None:
    job = a_job(tmp_path, version="v1")
    assert DataPrepJob.parse(job.model_dump(mode="json", by_alias=True, exclude_none=True)) == job


def test_a_version_decides_no_bytes(tmp_path: Path) -> None:
    ids = {run_id.run_id(a_job(tmp_path, **output).spec, inputs_sha256="0") for output in ({}, {"version": "v1"}, {"version": "v2"})}
    assert len(ids) == 1


@pytest.mark.parametrize("version", ["", "a/b", "..", "_v1", ".v1", "v 1", "-v1", "v1/"])
def test_a_version_is_one_visible_folder(tmp_path: Path, version: str) -> None:
    with pytest.raises(SpecError, match=r"spec\.output: version may contain only letters, digits, dots, dashes and underscores"):
        a_job(tmp_path, version=version)
