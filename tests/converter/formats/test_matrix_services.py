"""Tests the two sources that aren't files, in every format: a table of the fake MaxCompute service, and the output of another job."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pytest
from tests.builders import pairs
from tests.builders.shapes import RECORDS, SERVICES, csv, file_digests, shape_job

from dataprep_api.resources.from_job import resolve as resolve_from_job
from dataprep_api.resources.status import FromJob
from dataprep_converter.core.errors import BadSpec
from dataprep_converter.formats.registry import FORMATS
from dataprep_converter.inputs.access import Access
from dataprep_converter.tools.verification import verify
from storeservers.odps import FakeMaxCompute, rows_of

REFUSED: Final[Mapping[str, str]] = {
    "npz": "The feature 'name' holds bytes or text",
    "dl4jDataset": "The feature 'name' holds bytes or text",
    "fileBatch": "the features are features, label, name",
}
"""The formats that are refused, each with text that the error message must contain besides the format.

The tests check that all other formats can be written.
"""


@pytest.fixture(scope="module")
def table() -> Iterator[dict[str, Any]]:
    """Make a table with two numbers, a text and a class."""
    rows = pa.table(
        {
            "a": pa.array([float(number) for number in range(RECORDS)]),
            "b": pa.array([number / 4 for number in range(RECORDS)]),
            "name": pa.array([f"name {number}" for number in range(RECORDS)]),
            "label": pa.array([number % 3 for number in range(RECORDS)]),
        }
    )
    with FakeMaxCompute() as fake, pytest.MonkeyPatch.context() as environment:
        fake.make("t", {"a": "double", "b": "double", "name": "string", "label": "bigint"}, rows.schema)
        fake.fill("t", rows_of(rows))
        environment.setenv("ODPS_ENDPOINT", fake.endpoint)
        environment.setenv("ODPS_ACCESS_ID", fake.access_id)
        environment.setenv("ODPS_ACCESS_KEY", fake.secret)
        features = [{"name": "features", "columns": ["a", "b"]}, {"name": "name"}]
        yield {"source": {"table": {"uris": ["odps://p/tables/t"]}}, "features": features}


@pytest.fixture(scope="module")
def from_job(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Return the spec that the operator passes to the run after the other job is Complete."""
    folder = tmp_path_factory.mktemp("other")
    other = shape_job(csv(folder), folder / "set", format_="parquet", parallelism=1)
    file_digests(other, workers=1)
    digest = verify(other.spec.output.uri, Access()).digest
    return resolve_from_job({"source": {"fromJob": {"name": "other"}}}, FromJob(uri=other.spec.output.uri, digest=digest))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("source", "format_"),
    pairs.chosen(
        ((source, format_) for source in SERVICES for format_ in FORMATS),
        lambda source, format_: format_ in REFUSED or (source, format_) in {("table", "tfrecord"), ("fromJob", "parquet")},
    ),
)
def test_any_source_in_any_format(
    source: str, format_: str, table: dict[str, Any], from_job: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.fsync", lambda _: None)
    written = {"table": table, "fromJob": from_job}[source]
    one = shape_job(written, tmp_path / "one", format_=format_, parallelism=1)
    if refusal := REFUSED.get(format_):
        with pytest.raises(BadSpec) as caught:
            file_digests(one, workers=1)
        assert format_ in str(caught.value)
        assert refusal in str(caught.value)
        return
    first = file_digests(one, workers=1)
    assert verify(one.spec.output.uri, Access()).records_out == RECORDS
    assert file_digests(shape_job(written, tmp_path / "two", format_=format_, parallelism=2), workers=2) == first
