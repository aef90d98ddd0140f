"""npz: NumPy reads the files, bytes don't depend on the sizes of batches, and unsupported features are refused."""

import io
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from tests.builders.examples import examples
from tests.builders.jobs import run_job
from tests.converter.formats.batches import Encoded, breaks, flipped

from dataprep_api.resources.job import DataPrepJob
from dataprep_converter.core.errors import BadData, BadSpec, BrokenRecord
from dataprep_converter.core.tensors import to_arrow
from dataprep_converter.formats.archives.number_buffer import NumberBuffer
from dataprep_converter.inputs.access import Access
from dataprep_converter.records.feature import FeatureSpec
from dataprep_converter.tools.verification import verify
from workbench import mnist

COLUMNS = {
    "image": to_arrow(np.arange(24, dtype=np.uint8).reshape(3, 4, 2)),
    "x/y": pa.array([0.5, -1.0, float("inf")]),
    "kind": pa.array([2, 0, 1], pa.int8()),
}


def loaded(content: bytes) -> dict[str, Any]:
    with np.load(io.BytesIO(content), allow_pickle=False) as archive:
        return dict(archive)


@pytest.mark.parametrize("compression", ["None", "Deflate"])
def test_numpy_reads_an_array_for_each_feature_and_label(compression: str) -> None:
    found = loaded(Encoded("npz", COLUMNS, labels=["kind"], compression=compression).content)
    assert list(found) == ["features/image", "labels/kind", "features/x/y"]
    assert {name: (array.dtype.name, array.shape) for name, array in found.items()} == {
        "features/image": ("uint8", (3, 4, 2)),
        "features/x/y": ("float64", (3,)),
        "labels/kind": ("int8", (3,)),
    }
    np.testing.assert_array_equal(found["features/image"], np.arange(24).reshape(3, 4, 2))
    assert found["features/x/y"].tolist() == [0.5, -1.0, float("inf")]
    assert found["labels/kind"].tolist() == [2, 0, 1]


@pytest.mark.parametrize("compression", ["None", "Deflate"])
def test_the_archive_is_whole_and_names_no_time(compression: str) -> None:
    content = Encoded("npz", COLUMNS, compression=compression).content
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        assert archive.testzip() is None
        members = archive.infolist()
    assert {(member.date_time, member.create_system, member.external_attr >> 16) for member in members} == {
        ((1980, 1, 1, 0, 0, 0), 3, 0o100644)
    }
    assert {member.compress_type for member in members} == {zipfile.ZIP_DEFLATED if compression == "Deflate" else zipfile.ZIP_STORED}


@settings(max_examples=examples(30))
@given(
    values=arrays.arrays(
        st.sampled_from(["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "float16", "float32", "float64", "bool"]),
        arrays.array_shapes(max_dims=3, max_side=6),
    ),
    data=st.data(),
)
def test_every_value_comes_back_wherever_batches_are_cut(values: Any, data: st.DataObject) -> None:
    cuts = sorted(data.draw(st.lists(st.integers(0, len(values)), max_size=3)))
    whole = Encoded("npz", {"x": to_arrow(values)})
    assert Encoded("npz", {"x": to_arrow(values)}, cuts=cuts).content == whole.content
    found = loaded(whole.content)["features/x"]
    assert found.dtype == values.dtype
    assert found.tobytes() == values.tobytes()
    np.testing.assert_array_equal([record["x"] for record in whole.parsed()], values.reshape(len(values), -1))


def test_a_file_without_records_has_arrays_without_rows() -> None:
    empty = Encoded("npz", {name: column.slice(0, 0) for name, column in COLUMNS.items()})
    assert loaded(empty.content)["features/image"].shape == (0, 4, 2)
    assert empty.parsed() == []


@pytest.mark.parametrize(
    ("columns", "options", "message"),
    [
        (
            {"x": pa.array([[1], [2, 3]])},
            {},
            "The feature 'x' has rows of different lengths, and npz holds arrays of one shape.",
        ),
        (
            {"x": pa.array([[1], [2, 3]])},
            {"sequences": ["x"]},
            "The feature 'x' is a sequence, but npz holds arrays of a fixed shape.",
        ),
        (
            {"x": pa.array(["a", "b"])},
            {},
            (
                "The feature 'x' holds bytes or text, but npz holds only arrays of numbers:"
                " decode images, turn text into numbers, or remove the feature."
            ),
        ),
        (
            {"../x": pa.array([1, 2])},
            {},
            "npz can't name an array '../x', because this name isn't a path below a folder. Give the feature another name.",
        ),
    ],
)
def test_what_is_no_array_of_numbers_is_refused_before_anything_is_read(
    columns: dict[str, Any], options: dict[str, Any], message: str
) -> None:
    with pytest.raises(BadSpec) as caught:
        Encoded("npz", columns, **options)
    assert str(caught.value) == message


def test_a_null_is_refused() -> None:
    held = NumberBuffer(FeatureSpec("x", kind="float", dtype="float64", shape=()), format_="npz")
    with pytest.raises(BadData, match="The feature 'x' has no value in some records, and npz can't store missing values."):
        held.add(pa.array([1.0, None]))


# --- broken files -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("compression", ["None", "Deflate"])
def test_a_file_cut_anywhere_is_named_with_its_offset(compression: str) -> None:
    made = Encoded("npz", COLUMNS, compression=compression)
    for size in range(len(made.content)):
        with pytest.raises(BrokenRecord, match=r" at offset \d+$"):
            made.parsed(made.content[:size], piece=1 << 20)


@pytest.mark.parametrize("compression", ["None", "Deflate"])
def test_no_flipped_bit_changes_a_record_unnoticed(compression: str) -> None:
    made = Encoded("npz", {"x": COLUMNS["image"], "y": COLUMNS["kind"]}, compression=compression)
    unnoticed = [damaged for damaged in flipped(made.content) if not breaks(made, damaged)]
    # Up to seven bits after the end of each deflated array are unused.
    assert len(unnoticed) <= (14 if compression == "Deflate" else 0)
    assert all(made.parsed(damaged, piece=1 << 20) == made.parsed() for damaged in unnoticed)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "truncated header of a member (0 of 30 bytes) at offset 0"),
        (b"x" * 30, "expected a member of a zip archive, got 78787878 at offset 0"),
        (
            Encoded("npz", {"z": pa.array([1])}).content,
            "expected the arrays features/x.npy, features/y.npy, got features/z.npy at offset 0",
        ),
        (
            Encoded("npz", {"x": pa.array([1, 2]), "y": pa.array([1, 2], pa.int8())}).content,
            "features/y.npy isn't an array of int64 of shape ['records'] at offset 188",
        ),
    ],
    ids=["nothing", "no archive", "other arrays", "another type"],
)
def test_what_is_no_such_archive_is_named(content: bytes, message: str) -> None:
    made = Encoded("npz", {"x": pa.array([1, 2]), "y": pa.array([3, 4])})
    with pytest.raises(BrokenRecord) as caught:
        made.parsed(content)
    assert str(caught.value) == message


# --- whole data sets ----------------------------------------------------------------------------------------------


def test_numpy_reads_every_field_of_three_sources(tmp_path: Path) -> None:
    (tmp_path / "table.csv").write_text("".join(f"{n},{n / 4},{n % 3}\n" for n in range(50)))
    digits = mnist.write(tmp_path / "inputs", train=50, test=10)
    subset = {"name": "train", "images": f"{digits}/train-images-idx3-ubyte.gz", "labels": f"{digits}/train-labels-idx1-ubyte.gz"}
    steps = np.arange(600, dtype=np.int16).reshape(50, 3, 4)
    pq.write_table(
        pa.table({"grid": pa.array(steps.reshape(50, 12).tolist(), pa.list_(pa.int16(), 12)), "y": np.arange(50) % 2 == 0}),
        tmp_path / "g.parquet",
    )
    numbers = np.arange(50)
    cases: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
        "table": (
            {
                "source": {"csv": {"uris": [str(tmp_path / "table.csv")]}},
                "features": [{"name": "x", "columns": ["0..1"]}],
                "labels": [{"name": "kind", "columns": ["2"], "dtype": "int8"}],
            },
            {"features/x": np.stack([numbers, numbers / 4], axis=1), "labels/kind": (numbers % 3).astype(np.int8)},
        ),
        "digits": (
            {"source": {"idx": {"subsets": [subset]}}, "features": [{"name": "image"}], "labels": [{"name": "label"}]},
            {
                "features/image": ((31 * numbers[:, None] + 7 * np.arange(784)) % 256).astype(np.uint8).reshape(50, 28, 28),
                "labels/label": numbers % 10,
            },
        ),
        "grid": (
            {
                "source": {"parquet": {"uris": [str(tmp_path / "g.parquet")]}},
                "features": [{"name": "grid"}],
                "labels": [{"name": "y"}],
            },
            {"features/grid": steps.reshape(50, 12), "labels/y": numbers % 2 == 0},
        ),
    }
    for name, (spec, expected) in cases.items():
        output = {"uri": str(tmp_path / name), "format": "npz", "granularity": "Minibatch", "minibatchSize": 20}
        job = {"apiVersion": "dataprep.io/v1alpha1", "kind": "DataPrepJob", "metadata": {"name": "x"}, "spec": spec | {"output": output}}
        run_job(DataPrepJob.parse(job))
        files = [tmp_path / name / file.file for file in verify(str(tmp_path / name), Access()).files]
        found = [loaded(file.read_bytes()) for file in files]
        assert [len(next(iter(arrays.values()))) for arrays in found] == [20, 20, 10]
        for key, values in expected.items():
            np.testing.assert_array_equal(np.concatenate([arrays[key] for arrays in found]), values, err_msg=f"{name} {key}")
        assert set(found[0]) == set(expected)
