"""MXNet's RecordIO reads the files of `recordioProtobuf` and writes identical files, even if records contain the magic number."""

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
from google.protobuf.json_format import MessageToDict  # type: ignore[import-untyped]  # it has no stubs
from tests.interop import data_sets, recordio_sets
from tests.interop.comparisons import compared

import environments
from dataprep_api import names
from dataprep_converter.formats.recordio.recordio_decoder import parse_record

pytestmark = pytest.mark.interop

READER = Path(__file__).parent / "readers" / "mxnet_records.py"
NUMBER = "csv, with the magic number"


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Path]]:
    folder = tmp_path_factory.mktemp("recordio")
    found = {source: data_sets.shards(output) for source, output in recordio_sets.made(folder).items()}
    literal = folder / "literal"
    literal.write_bytes(bytes.fromhex("0a23d7ce04000020616263640a23d7ce0400006065666768"))
    return {**found, NUMBER: [recordio_sets.with_the_number(folder)], "literal": [literal]}


@pytest.fixture(scope="module")
def said(files: dict[str, list[Path]], tmp_path_factory: pytest.TempPathFactory) -> Any:
    """MXNet's output for every file. All files are read in one run, because importing MXNet takes seconds."""
    wanted = tmp_path_factory.mktemp("wanted") / "wanted.json"
    wanted.write_text(json.dumps([with_index(source, file) for source, group in files.items() for file in group]))
    answer = json.loads(environments.run("mxnet", READER, [wanted]))
    found = iter(answer["files"])
    return {"versions": answer["versions"], **{source: [next(found) for _ in group] for source, group in files.items()}}


def test_joined_frames_are_equal_to_mxnets(said: Any, files: dict[str, list[Path]]) -> None:
    (found,) = said["literal"]
    assert found == {"payloads": ["616263640a23d7ce65666768"], "written": digest(files["literal"][0])}


@pytest.mark.parametrize("source", [*recordio_sets.OPTIONS, NUMBER])
def test_every_record_is_read_and_written_back_as_the_same_bytes(said: Any, files: dict[str, list[Path]], source: str) -> None:
    assert [found["written"] for found in said[source]] == [digest(file) for file in files[source]]
    payloads = [bytes.fromhex(payload) for found in said[source] for payload in found["payloads"]]
    expected = (
        numbers()
        if source == NUMBER
        else [recordio_sets.as_published(recordio_sets.message(source, row)) for row in data_sets.rows(source)]
    )
    assert [MessageToDict(parse_record(payload), preserving_proto_field_name=True) for payload in payloads] == expected
    compared(
        format="recordioProtobuf",
        reader="MXNet's `MXRecordIO`, which also writes the same bytes, and `MXIndexedRecordIO`, which uses the data set's index",
        versions=said["versions"],
        source=source,
        records=len(expected),
        fields=["features/values"] if source == NUMBER else recordio_sets.fields(source),
    )


def digest(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


def with_index(source: str, file: Path) -> dict[str, str]:
    index = {} if source == "literal" else {"index": str(file.parent / names.index_file(file.name))}
    return {"file": str(file), **index}


def numbers() -> list[dict[str, Any]]:
    return [{"features": {"values": recordio_sets.dense(row)}} for row in ([1, 2], [3, -1_804_698_880], [5, 6])]
