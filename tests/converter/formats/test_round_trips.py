"""Our own sources read parquet, arrow, jsonl and csv outputs, and give the same records as the original source."""

import io
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import pytest
from tests.builders.shapes import SOURCES, file_digests
from tests.builders.specs import parse_job

from dataprep_api.resources.job import DataPrepJob
from dataprep_converter.inputs.access import Access
from dataprep_converter.tools.inspect import inspection

_IDS: Final = {"id": "Int64", "scores": "Float32", "words": "String"}
READABLE: Final[Mapping[tuple[str, str], dict[str, Any]]] = {
    ("csv", "parquet"): {},
    ("csv", "arrow"): {},
    ("csv", "jsonl"): {},
    ("csv", "csv"): {"header": True},
    ("jsonl", "parquet"): {},
    ("jsonl", "arrow"): {},
    ("jsonl", "jsonl"): {"columns": [{"name": name, "type": kind, "list": name != "id"} for name, kind in _IDS.items()]},
    ("images", "parquet"): {},
    ("images", "arrow"): {},
    ("idx", "parquet"): {},
    ("idx", "arrow"): {},
    ("idx", "csv"): {"header": True},
    ("numpy", "parquet"): {},
    ("numpy", "arrow"): {},
}
"""Maps (source, format) to the options that are needed to read the output as a source."""


def a_job(spec: dict[str, Any], output: Path, *, format_: str) -> DataPrepJob:
    shards = {"count": 1 if format_ == "tfrecord" else 3}
    whole = spec | {"output": {"uri": str(output), "format": format_, "shards": shards}, "splits": {"into": [{"name": "train"}]}}
    return parse_job(whole)


@pytest.mark.parametrize("format_", ["parquet", "arrow", "jsonl", "csv"])
def test_inspect_shows_the_first_record(format_: str, tmp_path: Path) -> None:
    file_digests(a_job(SOURCES["csv"](tmp_path), tmp_path / "out", format_=format_), workers=1)
    shown = io.StringIO()
    inspection.show(str(tmp_path / "out"), Access(), records=2, as_json=True, stream=shown)
    first, second = json.loads(shown.getvalue())["records"]
    assert first == {"features": [0.0, 0.0], "name": ["name 0"], "label": [0]}
    assert second == {"features": [1.0, 0.25], "name": ["name 1"], "label": [1]}


@pytest.mark.slow
@pytest.mark.parametrize(("source", "format_"), READABLE)
def test_our_own_source_reads_what_was_written(source: str, format_: str, tmp_path: Path) -> None:
    written = SOURCES[source](tmp_path)
    direct = file_digests(a_job(written, tmp_path / "direct", format_="tfrecord"), workers=1)
    file_digests(a_job(written, tmp_path / format_, format_=format_), workers=1)

    again: dict[str, Any] = {"source": {format_: {"uris": [str(tmp_path / format_)], **READABLE[source, format_]}}}
    if (source, format_) == ("csv", "csv"):
        again["features"] = [{"name": "features", "columns": ["features_0", "features_1"]}, {"name": "name"}]
    if (source, format_) == ("idx", "csv"):
        pixels = [f"image_{number}" for number in range(16)]
        again["features"] = [{"name": name} for name in ("height", "width", "depth")] + [{"name": "image", "columns": pixels}]
        written = written | {"features": [{"name": name} for name in ("height", "width", "depth")] + [{"name": "image", "dtype": "int64"}]}
        direct = file_digests(a_job(written, tmp_path / "values", format_="tfrecord"), workers=1)
    found = file_digests(a_job(again, tmp_path / "again", format_="tfrecord"), workers=1)
    assert len(found) == 1
    assert found == direct
