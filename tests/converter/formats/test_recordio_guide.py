"""Check the statements of SageMaker's guide about RecordIO, from text files to the bytes of finished shards."""

import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError
from tests.builders.jobs import run_job
from tests.builders.specs import parse_job

from dataprep_api.errors import SpecError
from dataprep_api.resources.job import DataPrepJob
from dataprep_api.spec import Output
from dataprep_converter.core.errors import BadSpec, ConvertError
from dataprep_converter.formats.recordio.recordio_decoder import parse_record
from dataprep_converter.inputs.access import Access
from dataprep_converter.tools.verification import verify
from dataprep_reader import open as open_data_set
from workbench import mnist

FIVE = {"name": "features", "columns": ["0..4"]}
TWO_ROWS = "1.0,3.2,4.5,1.1,6.3,0\n1.6,2.4,5.9,0.2,2.2,1\n"


def shard(folder: Path, *, source: dict[str, Any], options: dict[str, Any] | None = None, provenance: bool = False, **spec: Any) -> bytes:
    """Run a job and return the bytes of its only file."""
    output: dict[str, Any] = {
        "format": "recordioProtobuf",
        "recordioProtobuf": options or {},
        "shards": {"count": 1},
        "uri": str(folder / "output"),
        "provenance": provenance,
    }
    job = {"apiVersion": "dataprep.io/v1alpha1", "kind": "DataPrepJob", "metadata": {"name": "guide"}}
    run_job(DataPrepJob.parse({**job, "spec": {"source": source, **spec, "output": output}}))
    return (folder / "output" / "train.rec").read_bytes()


def text(folder: Path, content: str) -> list[str]:
    (folder / "input").write_text(content)
    return [str(folder / "input")]


def messages(data: bytes) -> list[Any]:
    """Return the messages of a file whose records are not split into several frames."""
    found, at = [], 0
    while at < len(data):
        size = int.from_bytes(data[at + 4 : at + 8], "little")
        found.append(parse_record(data[at + 8 : at + 8 + size]))
        at += 8 + size + -size % 4
    return found


def test_two_rows_of_a_csv_file(tmp_path: Path) -> None:
    made = shard(
        tmp_path, source={"csv": {"uris": text(tmp_path, TWO_ROWS)}}, features=[FIVE], labels=[{"name": "label", "columns": ["5"]}]
    )
    assert made.hex() == (
        "0a23d7ce380000000a220a0676616c756573121812160a140000803fcdcc4c4000009040cdcc8c3f9a99c94012120a0676616c756573120812060a0400000000"
        "0a23d7ce380000000a220a0676616c756573121812160a14cdcccc3f9a991940cdccbc40cdcc4c3ecdcc0c4012120a0676616c756573120812060a040000803f"
    )


def test_a_row_with_three_targets(tmp_path: Path) -> None:
    source = {"csv": {"uris": text(tmp_path, TWO_ROWS)}}
    features, labels = [{"name": "features", "columns": ["0..2"]}], [{"name": "labels", "columns": ["3..5"]}]
    made = shard(tmp_path, source=source, features=features, labels=labels)
    # The floats are the same as in the TFRecord of this row, which was checked with TensorFlow.
    assert made[:64].hex() == (
        "0a23d7ce38000000"
        "0a1a0a0676616c7565731210120e0a0c0000803fcdcc4c4000009040"
        "121a0a0676616c7565731210120e0a0ccdcc8c3f9a99c94000000000"
    )  # fmt: skip


def test_a_line_of_libsvm(tmp_path: Path) -> None:
    sparse = {"sparse": [{"name": "values", "keys": "keys", "values": "values", "shape": [200]}]}
    source = {"libsvm": {"uris": text(tmp_path, "1 4:1.5 200:2.5\n")}}
    made = shard(tmp_path, source=source, options=sparse, features=[{"name": "keys"}, {"name": "values"}], labels=[{"name": "label"}])
    assert made.hex() == (
        "0a23d7ce350000000a1f0a0676616c756573121512130a080000c03f00002040120303c7011a02c80112120a0676616c756573120812060a040000803f000000"
    )


def test_libsvm_is_the_one_sparse_tensor_without_options(tmp_path: Path) -> None:
    source = {"libsvm": {"uris": text(tmp_path, "1 4:1.5 200:2.5\n"), "numFeatures": 200}}
    made = shard(tmp_path, source=source)
    assert made.hex() == (
        "0a23d7ce350000000a1f0a0676616c756573121512130a080000c03f00002040120303c7011a02c80112120a0676616c756573120812060a040000803f000000"
    )
    manifest = verify(str(tmp_path / "output"), Access(), every_record=True)
    assert manifest.parts == {"recordio": 2}
    (batch,) = open_data_set(str(tmp_path / "output"), split="train")
    assert [batch[name][0].tolist() for name in ("keys", "values")] == [[3, 199], [1.5, 2.5]]


SOME_LINES = "".join(f"{n % 2} {1 + n % 7}:1 {20 + n % 181}:0.5\n" for n in range(400))


def test_libsvm_is_as_long_as_its_largest_index_where_nothing_says_it(tmp_path: Path) -> None:
    source = {"libsvm": {"uris": text(tmp_path, SOME_LINES)}}
    asked = shard(tmp_path / "a", source={"libsvm": {**source["libsvm"], "numFeatures": 200}})
    assert shard(tmp_path / "b", source=source) == asked
    assert {tuple(message.features["values"].float32_tensor.shape) for message in messages(asked)} == {(200,)}
    verify(str(tmp_path / "b/output"), Access(), every_record=True)
    (batch, *_) = open_data_set(str(tmp_path / "b/output"), split="train")
    assert [batch[name][1].tolist() for name in ("keys", "values")] == [[1, 20], [1, 0.5]]


@pytest.mark.parametrize(
    ("files", "options", "length"),
    [
        ({"a": b"1 4:1\n", "b.gz": gzip.compress(b"0 1:1 9:1\n0 3:1\n"), "c": b"1 2:1\n"}, {}, 9),
        ({"a": b"1 4:1\n"}, {"oneBased": False}, 5),
        ({"a": b"1\n0\n"}, {}, 1),
        ({"a": b"1 3:1\n1 8:1\n"}, {"limit": 1}, 8),
        ({"a": b"1 3:1\nx 77:1\n1 5:1 99:y\n1 88:1 87:1\n", "b": b"0 6:1 # 99:1\n"}, {"onBadRecord": {"policy": "Skip"}}, 6),
        ({"a": b"1 9999999999999999:1\n"}, {}, 9999999999999999),
    ],
    ids=["over all files", "from 0", "no index at all", "beyond a limit", "bad lines have no say", "the largest that can be written"],
)
def test_the_length_is_that_of_all_good_lines(tmp_path: Path, files: dict[str, bytes], options: dict[str, Any], length: int) -> None:
    (tmp_path / "input").mkdir()
    for name, content in files.items():
        (tmp_path / "input" / name).write_bytes(content)
    based = {name: options.pop(name) for name in ["oneBased"] if name in options}
    made = shard(tmp_path, source={"libsvm": {"uris": [str(tmp_path / "input")], **based}}, **options)
    assert {tuple(message.features["values"].float32_tensor.shape) for message in messages(made)} == {(length,)}


def test_the_length_is_the_same_whatever_the_workers_and_the_shuffle(tmp_path: Path) -> None:
    uris = text(tmp_path, SOME_LINES)
    found = set()
    for number, workers in enumerate((1, 3)):
        output = {"format": "recordioProtobuf", "shards": {"count": 3}, "uri": str(tmp_path / f"out{number}")}
        spec = {"source": {"libsvm": {"uris": uris}}, "shuffle": {"seed": 1}, "output": output}
        job = parse_job(spec)
        planned, made = run_job(job, workers=workers)
        found.add((planned.run_id, made.digest))
    assert len(found) == 1


def test_new_lines_that_are_longer_are_no_extension(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in/a").write_text("1 4:1\n")
    output = {"format": "recordioProtobuf", "uri": str(tmp_path / "out"), "overwrite": "Extend"}
    spec = {"source": {"libsvm": {"uris": [str(tmp_path / "in")]}}, "output": output}
    job = parse_job(spec)
    for name, line in (("a", "1 4:1\n"), ("b", "0 3:1\n")):
        (tmp_path / "in" / name).exists() or (tmp_path / "in" / name).write_text(line)
        run_job(job)
    (tmp_path / "in/c").write_text("1 9:1\n")
    with pytest.raises(BadSpec, match="With the new inputs, the source's numFeatures would be 9, but the data set was made with 4"):
        run_job(job)


def test_idx_is_the_flat_vector_of_the_size_that_sagemaker_users_know(tmp_path: Path) -> None:
    folder = mnist.write(tmp_path / "mnist", train=3, test=1)
    subset = {"name": "train", "images": str(folder / "train-images-idx3-ubyte.gz"), "labels": str(folder / "train-labels-idx1-ubyte.gz")}
    made = shard(tmp_path, source={"idx": {"subsets": [subset]}})
    # Each payload is 3,176 bytes long: the message's tags and lengths, 784 floats, and the label.
    assert made == b"".join(
        bytes.fromhex("0a23d7ce 680c0000 0ad118 0a06 76616c756573 12c618 12c318 0ac018")
        + ((31 * number + 7 * np.arange(784)) % 256).astype("<f4").tobytes()
        + bytes.fromhex("1212 0a06 76616c756573 1208 1206 0a04")
        + np.array(number, "<f4").tobytes()
        for number in range(3)
    )
    assert len(made) == 3 * 3_184
    assert verify(str(tmp_path / "output"), Access(), every_record=True).parts == {"recordio": 2}


def test_an_array_of_numpy(tmp_path: Path) -> None:
    rows = np.arange(12, dtype=np.float32).reshape(2, 6)
    np.save(tmp_path / "rows.npy", rows)
    made = shard(tmp_path, source={"numpy": {"uris": [str(tmp_path / "rows.npy")]}}, features=[{"name": "rows", "columns": ["0"]}])
    assert [list(message.features["values"].float32_tensor.values) for message in messages(made)] == rows.tolist()


def test_keys_count_along_rows(tmp_path: Path) -> None:
    # The line has all 200 cells of a matrix with 10 rows and 20 columns. With the guide's formula, key // 10, the rows would be 0 … 19.
    line = "0 " + " ".join(f"{key + 1}:{key + 1}" for key in range(200))
    sparse = {"sparse": [{"name": "values", "keys": "keys", "values": "values", "shape": [10, 20]}]}
    source = {"libsvm": {"uris": text(tmp_path, line + "\n")}}
    (message,) = messages(shard(tmp_path, source=source, options=sparse, features=[{"name": "keys"}, {"name": "values"}]))
    tensor = message.features["values"].float32_tensor
    matrix = np.zeros(tensor.shape, np.float32)
    matrix[np.array(tensor.keys) // 20, np.array(tensor.keys) % 20] = tensor.values
    np.testing.assert_array_equal(matrix, np.arange(1, 201, dtype=np.float32).reshape(10, 20))


def test_a_sparse_feature_without_a_shape_is_refused() -> None:
    with pytest.raises(ValidationError, match="shape\n  Field required"):
        Output.model_validate({"uri": "out", "recordioProtobuf": {"sparse": [{"name": "x", "keys": "k", "values": "v"}]}})


def test_a_key_beyond_the_shape_is_refused(tmp_path: Path) -> None:
    sparse = {"sparse": [{"name": "values", "keys": "keys", "values": "values", "shape": [199]}]}
    source = {"libsvm": {"uris": text(tmp_path, "1 4:1.5 200:2.5\n")}}
    with pytest.raises(ConvertError, match=r"The sparse feature 'values' has the key 199, which is outside its shape \[199\]."):
        shard(tmp_path, source=source, options=sparse, features=[{"name": "keys"}, {"name": "values"}])


@pytest.mark.parametrize("dtype", ["int8", "int16", "int64", "float16"])
def test_what_the_format_reserves_and_does_not_define_is_refused(tmp_path: Path, dtype: str) -> None:
    with pytest.raises(ConvertError, match=f"The feature 'x': recordioProtobuf can't store {dtype}; it supports float32, float64, int32."):
        shard(tmp_path, source={"csv": {"uris": text(tmp_path, "1\n")}}, features=[{"name": "x", "columns": ["0"], "dtype": dtype}])


def test_a_number_beyond_int32_is_named_with_its_record(tmp_path: Path) -> None:
    source = {"csv": {"uris": text(tmp_path, f"{-(2**31)}\n{2**31}\n")}}
    with pytest.raises(ConvertError, match=r"input, record 1: line 2: x 2147483648 does not fit int32"):
        shard(tmp_path, source=source, features=[{"name": "x", "columns": ["0"], "dtype": "int32"}])


def test_an_image_has_its_content_type(tmp_path: Path) -> None:
    (tmp_path / "input").write_bytes(b"\xff\xd8\xff\xd9")
    source = {"wholeFile": {"uris": [str(tmp_path / "input")]}}
    features = [{"name": "image", "columns": ["content"]}]
    (message,) = messages(shard(tmp_path, source=source, options={"contentType": "image/jpeg"}, features=features))
    content = message.features["values"].bytes
    assert (list(content.value), content.content_type) == ([b"\xff\xd8\xff\xd9"], "image/jpeg")


def test_a_configuration_is_json(tmp_path: Path) -> None:
    source = {"jsonl": {"uris": text(tmp_path, json.dumps({"x": 1.5, "settings": '{"k": [1]}'}) + "\n")}}
    features = [{"name": "x"}, {"name": "settings"}]
    (message,) = messages(shard(tmp_path, source=source, options={"configuration": "settings"}, features=features))
    assert message.configuration == '{"k": [1]}'


def test_a_configuration_that_is_no_json_is_refused(tmp_path: Path) -> None:
    source = {"jsonl": {"uris": text(tmp_path, json.dumps({"x": 1.5, "settings": "k=1"}) + "\n")}}
    expected = "The feature 'settings' is the records' configuration, which must be JSON, but 'k=1' isn't: Expecting value: line 1 column 1"
    with pytest.raises(ConvertError, match=expected):
        shard(tmp_path, source=source, options={"configuration": "settings"}, features=[{"name": "x"}, {"name": "settings"}])


# --- provenance ---------------------------------------------------------------------------------------------------


def test_uid_and_metadata_say_where_a_record_comes_from(tmp_path: Path) -> None:
    uris = text(tmp_path, "# two rows\n1.0,2.0,0\n\n3.0,4.0,1\n")
    source = {"csv": {"uris": uris, "skipLines": 1}}
    found = messages(shard(tmp_path, source=source, provenance=True, labels=[{"name": "label", "columns": ["2"]}]))
    assert [message.uid for message in found] == ["input:2", "input:4"]
    assert [json.loads(message.metadata) for message in found] == [
        {"source": uris[0], "index": 0, "line": 2},
        {"source": uris[0], "index": 1, "line": 4},
    ]
    assert sorted(found[0].features) == ["0", "1"]


def test_without_provenance_there_is_none_of_it(tmp_path: Path) -> None:
    (message,) = messages(shard(tmp_path, source={"csv": {"uris": text(tmp_path, "1.0\n")}}))
    assert (message.HasField("uid"), message.HasField("metadata")) == (False, False)


def test_a_uid_of_a_feature_and_provenance_are_refused() -> None:
    with pytest.raises(
        ValidationError,
        match="provenance sets the records' uid and metadata, so leave out recordioProtobuf.uid and recordioProtobuf.metadata",
    ):
        Output.model_validate({"uri": "out", "format": "recordioProtobuf", "provenance": True, "recordioProtobuf": {"uid": "id"}})


# --- the channel that training needs ------------------------------------------------------------------------------


def test_a_job_without_a_split_called_train_is_refused(tmp_path: Path) -> None:
    splits = {"into": [{"name": "a", "fraction": 0.5}, {"name": "b", "fraction": 0.5}]}
    with pytest.raises(SpecError, match="needs a channel named train, but none of the splits has that name; they are a, b"):
        shard(tmp_path, source={"csv": {"uris": text(tmp_path, TWO_ROWS)}}, splits=splits)


def test_a_source_without_a_subset_called_train_is_refused_by_the_plan(tmp_path: Path) -> None:
    (tmp_path / "images").write_bytes(bytes.fromhex("00000803000000010000000100000001") + b"\x07")
    source = {"idx": {"subsets": [{"name": "all", "images": str(tmp_path / "images")}]}}
    with pytest.raises(BadSpec, match=r"needs a channel named train, but none of the splits has that name; they are all\."):
        shard(tmp_path, source=source)
