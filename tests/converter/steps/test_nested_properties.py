"""If a format can store a nested column, other readers get the same values from it.

Any other format stores the values as JSON or refuses the column.
"""

import csv
import io
import json
import tarfile
import tempfile
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from tests.builders.examples import examples
from tests.builders.jobs import verified_run
from tests.builders.nested_values import nested_columns
from tests.builders.specs import parse_job

from dataprep_converter.core.errors import BadSpec
from dataprep_converter.core.tensors import Array
from dataprep_converter.formats.nested.json_texts import json_column
from dataprep_converter.formats.tfrecord import records

_pq: Any = pq  # the module has no type stubs
_ipc: Any = pa.ipc


def converted(folder: Path, column: Array, source: str, format_: str, **spec: Any) -> Path:
    """The only shard of a data set. The data set's only feature is the column."""
    table, file = pa.table({"c": column}), folder / f"in.{source}"
    if source == "parquet":
        _pq.write_table(table, file)
    else:
        with pa.OSFile(str(file), "wb") as sink, _ipc.new_file(sink, table.schema) as writer:
            writer.write_table(table)
    output = {"uri": str(folder / "out"), "format": format_, "shards": {"count": 1}}
    manifest = verified_run(parse_job({"source": {source: {"uris": [str(file)]}}, "output": output} | spec))
    return folder / "out" / manifest.files[0].file


@pytest.mark.slow
@pytest.mark.parametrize("format_", ["parquet", "arrow"])
@pytest.mark.parametrize("source", ["parquet", "arrow"])
@given(column=nested_columns(least=1))
@settings(max_examples=examples(9), deadline=None)
def test_a_table_has_the_values_of_the_input(source: str, format_: str, column: Array) -> None:
    with tempfile.TemporaryDirectory() as folder:
        file = converted(Path(folder), column, source, format_)
        made = _pq.read_table(file) if format_ == "parquet" else _ipc.open_file(file.read_bytes()).read_all()
    assert made.schema.field("c").type == column.type
    assert repr(made.column("c").to_pylist()) == repr(column.to_pylist())


@pytest.mark.slow
@given(column=nested_columns(least=1))
@settings(max_examples=examples(9), deadline=None)
def test_json_lines_have_the_json_of_the_input(column: Array) -> None:
    with tempfile.TemporaryDirectory() as folder:
        lines = converted(Path(folder), column, "parquet", "jsonl").read_bytes().splitlines()
    assert [json.loads(line) for line in lines] == [{"c": value} for value in json_values(column)]


@pytest.mark.slow
@pytest.mark.parametrize("format_", ["tfrecord", "csv", "webdataset"])
@given(column=nested_columns(least=1, nullable=False))
@settings(max_examples=examples(6), deadline=None)
def test_another_format_has_the_json_as_text(format_: str, column: Array) -> None:
    with tempfile.TemporaryDirectory() as folder:
        content = converted(Path(folder), column, "parquet", format_, features=[{"name": "c"}]).read_bytes()
    assert [json.loads(text) for text in texts_in(content, format_)] == json_values(column)


@pytest.mark.parametrize("format_", ["npz", "dl4jDataset"])
@given(column=nested_columns(least=1, nullable=False))
@settings(max_examples=examples(3), deadline=None)
def test_a_format_of_numbers_refuses_it_by_name_before_any_shard(format_: str, column: Array) -> None:
    with tempfile.TemporaryDirectory() as folder:
        with pytest.raises(BadSpec, match="'c'"):
            converted(Path(folder), column, "parquet", format_, features=[{"name": "c"}])
        assert not [file for file in (Path(folder) / "out").rglob("*") if file.is_file()]


def json_values(column: Array) -> list[Any]:
    return [None if text is None else json.loads(text) for text in json_column(column).to_pylist()]


def texts_in(content: bytes, format_: str) -> list[bytes] | list[str]:
    if format_ == "tfrecord":
        return [records.parse_example(payload)["c"][0] for _, payload in records.read([content])]
    if format_ == "csv":
        return [row["c"] for row in csv.DictReader(io.StringIO(content.decode(), newline=""))]
    with tarfile.open(fileobj=io.BytesIO(content)) as tar:
        return [tar.extractfile(member).read() for member in tar]  # type: ignore[union-attr]
