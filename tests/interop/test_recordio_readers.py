"""SageMaker's SDK and protoc's generated code read `recordioProtobuf`: every field of every record, from three sources."""

import json
from pathlib import Path
from typing import Any

import pytest
from google.protobuf import descriptor_pb2  # type: ignore[import-untyped]  # it has no stubs
from tests.interop import data_sets, recordio_sets
from tests.interop.comparisons import compared
from tests.interop.recordio_sets import OPTIONS, message

import environments
from dataprep_converter.formats.recordio.recordio_decoder import parse_record

pytestmark = pytest.mark.interop

READERS = Path(__file__).parent / "readers"
SCHEMA = Path(__file__).parents[2] / "converter/dataprep_converter/formats/recordio/record.proto"


@pytest.fixture(scope="module")
def by_sagemaker(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The SDK's output for all files. All files are read in one run, because importing the SDK takes seconds."""
    outputs = recordio_sets.made(tmp_path_factory.mktemp("recordio"))
    files = [file for source in OPTIONS for file in data_sets.shards(outputs[source])]
    split = recordio_sets.with_the_number(tmp_path_factory.mktemp("number"))
    return json.loads(environments.run("sagemaker", READERS / "sagemaker_records.py", [*files, split]))


@pytest.fixture(scope="module")
def by_protoc(by_sagemaker: Any, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The generated code's output for the records that the SDK has extracted from the frames."""
    payloads = tmp_path_factory.mktemp("payloads") / "payloads.json"
    payloads.write_text(json.dumps([file["payloads"] for file in by_sagemaker["files"][:-1]]))
    return json.loads(environments.run("protoc", READERS / "protoc_records.py", [SCHEMA, payloads]))


def agree(reader: str, versions: dict[str, str], source: str) -> None:
    compared(
        format="recordioProtobuf",
        reader=reader,
        versions=versions,
        source=source,
        records=data_sets.COUNT,
        fields=recordio_sets.fields(source),
    )


def of_source(files: list[Any], source: str) -> list[Any]:
    begin = list(OPTIONS).index(source) * data_sets.SHARDS
    return files[begin : begin + data_sets.SHARDS]


@pytest.mark.parametrize("source", OPTIONS)
def test_sagemakers_sdk_reads_every_field(by_sagemaker: Any, source: str) -> None:
    found = [record for file in of_source(by_sagemaker["files"], source) for record in file["records"]]
    expected = [message(source, row) for row in data_sets.rows(source)]
    assert found == expected
    agree("SageMaker's SDK, `read_records`", by_sagemaker["versions"], source)


@pytest.mark.parametrize("source", OPTIONS)
def test_protocs_code_reads_every_field(by_protoc: Any, source: str) -> None:
    found = [record for file in of_source(by_protoc["files"], source) for record in file]
    expected = [recordio_sets.as_published(message(source, row)) for row in data_sets.rows(source)]
    assert found == expected
    agree("protoc's code for `record.proto`", by_protoc["versions"], source)


def test_records_are_read_by_the_shipped_schema(by_protoc: Any) -> None:
    ours = descriptor_pb2.FileDescriptorProto()
    parse_record(b"").DESCRIPTOR.file.CopyToProto(ours)
    theirs = descriptor_pb2.FileDescriptorProto.FromString(bytes.fromhex(by_protoc["schema"]))
    for file in (ours, theirs):
        file.ClearField("syntax")
    assert ours == theirs


def test_sagemakers_sdk_refuses_a_record_that_is_split_at_the_magic_number(by_sagemaker: Any) -> None:
    assert by_sagemaker["files"][-1]["refused"] == "DecodeError"


def test_protoc_rejects_the_guides_errors_and_accepts_the_shipped_schema(tmp_path: Path) -> None:
    shipped, line = SCHEMA.read_text(), "repeated bytes value = 1;"
    assert shipped.count(line) == 1
    # The guide's two errors: `byte` isn't a protobuf type, and length-delimited fields can't be packed.
    slips = {"byte.proto": "repeated byte value = 1;", "packed.proto": "repeated bytes value = 1 [packed = true];"}
    for name, slip in slips.items():
        (tmp_path / name).write_text(shipped.replace(line, slip))
    said = json.loads(environments.run("protoc", READERS / "protoc_says.py", [SCHEMA, *(tmp_path / name for name in slips)]))
    assert said[0] == ""
    assert '"byte" is not defined' in said[1]
    assert "[packed = true] can only be specified for repeated primitive fields" in said[2]
