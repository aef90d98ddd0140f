"""mlcroissant finds no errors in `_dataprep/croissant.json`, and can read the records of tables with this description."""

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
from tests.interop import data_sets, table_sets, tfrecord_sets
from tests.interop.comparisons import compared
from tests.interop.data_sets import flat

import environments

pytestmark = [pytest.mark.interop, pytest.mark.heavy]

READER = Path(__file__).parents[1] / "readers" / "croissant_sets.py"
TABLES = ("parquet", "jsonl")
FORMATS = ("tfrecord", *TABLES)
RECOMMENDED = ("http://mlcommons.org/croissant/citeAs", "https://schema.org/datePublished", "https://schema.org/license")
"""Properties that only the publisher can provide."""


@pytest.fixture(scope="module")
def outputs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Path]]:
    folder = tmp_path_factory.mktemp("croissant")
    tables = {format_: table_sets.made(format_, folder / format_) for format_ in TABLES}
    return {"tfrecord": tfrecord_sets.made(folder / "tfrecord"), **tables}


@pytest.fixture(scope="module")
def said(outputs: dict[str, dict[str, Path]], tmp_path_factory: pytest.TempPathFactory) -> Any:
    """mlcroissant's output for all data sets."""
    wanted = tmp_path_factory.mktemp("wanted") / "wanted.json"
    places = [(format_, source) for format_ in outputs for source in outputs[format_]]
    wanted.write_text(json.dumps([str(outputs[format_][source] / "_dataprep/croissant.json") for format_, source in places]))
    answer = json.loads(environments.run("mlcroissant", READER, [wanted]))
    return {"versions": answer["versions"], **dict(zip(places, answer["sets"], strict=True))}


@pytest.mark.parametrize("source", data_sets.SOURCES)
@pytest.mark.parametrize("format_", FORMATS)
def test_the_description_has_no_error_and_names_every_shard(
    said: Any, outputs: dict[str, dict[str, Path]], format_: str, source: str
) -> None:
    found = said[format_, source]
    assert found["errors"] == []
    assert found["warnings"] == [f'[Metadata(dataset)] Property "{name}" is recommended, but does not exist.' for name in RECOMMENDED]
    assert found["splits"] == [{"name": "train", "records": data_sets.COUNT}]
    assert found["files"] == [
        {"name": shard.name, "sha256": hashlib.sha256(shard.read_bytes()).hexdigest(), "content_url": f"../{shard.name}"}
        for shard in data_sets.shards(outputs[format_][source])
    ]
    agree(said, format_, source, "the Croissant description, read by mlcroissant", ["files", "splits"])


@pytest.mark.parametrize("source", data_sets.SOURCES)
@pytest.mark.parametrize("format_", TABLES)
def test_every_field_of_every_record_is_read(said: Any, format_: str, source: str) -> None:
    found = [{name: flat(value) for name, value in record.items()} for record in said[format_, source]["records"]]
    expected = table_sets.rows(format_, source)
    # mlcroissant reads JSON with pandas, whose floats can differ by a few units in the last place.
    assert found == [{name: values if format_ == "parquet" else near(values) for name, values in row.items()} for row in expected]
    agree(said, format_, source, "mlcroissant's `Dataset.records`", sorted(expected[0]))


def near(values: list[Any]) -> Any:
    return pytest.approx(values, rel=1e-14) if values and isinstance(values[0], float) else values


def agree(said: Any, format_: str, source: str, reader: str, fields: list[str]) -> None:
    compared(format=format_, reader=reader, versions=said["versions"], source=source, records=data_sets.COUNT, fields=fields)
