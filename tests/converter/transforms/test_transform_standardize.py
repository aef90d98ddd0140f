from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest
from pydantic import ValidationError
from tests.builders.jobs import run_job
from tests.converter.transforms.image_batches import applied, drawn, pixels, reasons, schema_after, schema_of, tensors

from dataprep_api.resources.job import DataPrepJob
from dataprep_api.spec import Transform
from dataprep_converter.core.errors import BadData, BadSpec
from dataprep_converter.records.batch import Batch
from dataprep_converter.transforms.standardize import StandardizeStep

SIZE = (482, 415, 3)


def standardized(*images: npt.NDArray[Any], **options: Any) -> npt.NDArray[Any]:
    return pixels(applied(tensors(*images), {"standardize": options}))


def exact(image: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
    wide = image.astype(np.float64)
    expected: npt.NDArray[np.float64] = (wide - wide.mean()) / max(wide.std(), 1 / np.sqrt(wide.size))
    return expected


@pytest.mark.parametrize("dtype", ["uint8", "int16", "float32"])
def test_an_image_agrees_with_float64_arithmetic(dtype: str) -> None:
    image = np.asarray(drawn(482, 415)).astype(dtype)
    done = standardized(image)
    assert done.dtype == np.float32
    np.testing.assert_allclose(done[0], exact(image), rtol=0, atol=2e-7)
    assert abs(float(done.mean(dtype=np.float64))) < 1e-6
    assert abs(float(done.std(dtype=np.float64)) - 1) < 1e-6


def test_an_image_of_one_colour_becomes_zeros() -> None:
    assert not standardized(np.full(SIZE, 128, np.uint8)).any()
    assert not standardized(np.full(SIZE, 128.0, np.float32)).any()


def test_the_deviation_is_never_below_one_by_the_root_of_n() -> None:
    image = np.full(SIZE, 100, np.uint8)
    image[0, 0, 0] = 101
    assert image.size == 600_090
    # One of N values is greater by 1. Its distance from the mean is 1 - 1/N, and the deviation is about 1/√N, which is 0.00129090.
    assert standardized(image)[0, 0, 0, 0] == pytest.approx(1 / 0.00129090, rel=1e-4)


def test_each_image_has_its_own_mean() -> None:
    dark, bright = np.asarray(drawn(20, 30)) // 3, 255 - np.asarray(drawn(20, 30, seed=5)) // 2
    np.testing.assert_allclose(standardized(dark, bright), [exact(dark), exact(bright)], rtol=0, atol=2e-7)


@pytest.mark.parametrize("dtype", ["uint8", "float32"])
def test_float16_is_rounded_once(dtype: str) -> None:
    image = np.asarray(drawn(50, 60)).astype(dtype)
    done = standardized(image, dtype="float16")
    assert done.dtype == np.float16
    np.testing.assert_array_equal(done[0], exact(image).astype(np.float16))


@pytest.mark.parametrize("dtype", ["uint8", "int32", "float32"])
def test_a_given_mean_and_deviation_are_for_each_channel(dtype: str) -> None:
    image = np.arange(24, dtype=dtype).reshape(2, 4, 3)
    mean, deviation = [123.675, 116.28, 103.53], [58.395, 57.12, 57.375]
    expected = ((image.astype(np.float64) - mean) / deviation).astype(np.float32)
    np.testing.assert_array_equal(standardized(image, mean=mean, deviation=deviation)[0], expected)


def test_one_mean_is_for_all_channels() -> None:
    image = np.array([[[0, 128], [255, 64]]], np.uint8)
    expected = ((image - 127.5) / 127.5).astype(np.float32)
    np.testing.assert_array_equal(standardized(image, mean=[127.5], deviation=[127.5])[0], expected)


def test_numbers_of_another_count_than_the_channels_are_refused() -> None:
    schema = schema_of(tensors(np.zeros((2, 2, 3), np.uint8)))
    with pytest.raises(BadSpec, match="The transform standardize: mean has 2 numbers, but 'image' has 3 channels"):
        schema_after(schema, {"standardize": {"mean": [1, 2], "deviation": [1]}})


def test_scalars_are_refused_by_name() -> None:
    with pytest.raises(BadSpec, match="The transform standardize takes numeric tensors, but the column 'image' is int64"):
        schema_after(pa.schema([("image", pa.int64())]), {"standardize": {}})


def test_a_tensor_that_is_not_finite_is_bad() -> None:
    done = applied(tensors(np.array([1.0, np.nan], np.float32), np.array([1.0, 3.0], np.float32)), {"standardize": {}})
    assert reasons(done) == ["image is not finite in float32 after standardize"]
    assert pixels(done).tolist() == [[-1.0, 1.0]]


# --- collected from a split ---------------------------------------------------------------------------------------


def a_step(example: Batch) -> StandardizeStep:
    return StandardizeStep(Transform.model_validate({"standardize": {"split": "train"}}).member, schema_of(example))


@pytest.mark.parametrize("dtype", ["uint8", "int16", "float32"])
def test_collected_numbers_are_those_of_all_values_together(dtype: str) -> None:
    images = np.stack([np.asarray(drawn(20, 30, seed=seed)) for seed in range(7)]).astype(dtype)
    step = a_step(tensors(*images))
    found = step.fit(iter([tensors(*images[:4]), tensors(*images[4:5]), tensors(*images[5:])]))
    np.testing.assert_allclose(found["mean"], images.astype(np.float64).mean(axis=(0, 1, 2)), rtol=1e-14)
    np.testing.assert_allclose(found["deviation"], images.astype(np.float64).std(axis=(0, 1, 2)), rtol=1e-13)


def test_a_channel_of_one_value_becomes_zeros() -> None:
    images = np.zeros((4, 2, 2, 2), np.uint8)
    images[..., 1] = np.arange(16).reshape(4, 2, 2)
    step = a_step(tensors(*images))
    found = step.fit(iter([tensors(*images)]))
    assert found == {"mean": [0.0, 7.5], "deviation": [0.25, np.std(np.arange(16))]}
    step.load(found)
    assert not pixels(step.apply(tensors(*images)))[..., 0].any()


def test_what_can_not_be_collected_is_refused() -> None:
    image = np.full((2, 2, 1), np.inf, np.float32)
    step = a_step(tensors(image))
    with pytest.raises(BadData, match="the column 'image' has a value in the split 'train' that is not finite"):
        step.fit(iter([tensors(image)]))
    with pytest.raises(BadData, match="the split 'train' has no values of 'image' to compute a mean from"):
        step.fit(iter([]))
    with pytest.raises(ValidationError, match="set either split, or mean and deviation, not both"):
        Transform.model_validate({"standardize": {"split": "train", "mean": [1], "deviation": [1]}})


def test_a_job_collects_from_its_training_split_for_any_workers(tmp_path: Path) -> None:
    vectors = np.array([[1, 10], [3, 10], [5, 40], [7, 60], [100, 1000]], np.float32)
    np.save(tmp_path / "x.npy", vectors)
    outs = []
    for workers in (1, 2):
        spec = {
            "source": {"numpy": {"uris": [str(tmp_path / "x.npy")]}},
            "transforms": [{"standardize": {"column": "values", "split": "train"}}],
            "splits": {"into": [{"name": "train", "first": 4}, {"name": "test"}]},
            "output": {"uri": str(tmp_path / f"out{workers}"), "format": "npz", "shards": {"records": 2}},
        }
        job = {"apiVersion": "dataprep.io/v1alpha1", "kind": "DataPrepJob", "metadata": {"name": "x"}, "spec": spec}
        run_job(DataPrepJob.parse(job), workers=workers)
        outs.append({file.name: file.read_bytes() for file in sorted((tmp_path / f"out{workers}").glob("*.npz"))})
    assert outs[0] == outs[1]
    found = np.concatenate([np.load(tmp_path / "out1" / name)["features/values"] for name in sorted(outs[0], key=lambda n: "test" in n)])
    mean, deviation = [4.0, 30.0], [np.sqrt(5), np.sqrt(450)]
    np.testing.assert_allclose(found, ((vectors - mean) / deviation).astype(np.float32), rtol=1e-6)


def test_a_split_that_is_not_there_is_named(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.ones((2, 2), np.float32))
    spec = {
        "source": {"numpy": {"uris": [str(tmp_path / "x.npy")]}},
        "transforms": [{"standardize": {"column": "values", "split": "training"}}],
        "output": {"uri": str(tmp_path / "out")},
    }
    job = {"apiVersion": "dataprep.io/v1alpha1", "kind": "DataPrepJob", "metadata": {"name": "x"}, "spec": spec}
    with pytest.raises(BadSpec, match=r"The transform standardize: there is no split 'training' with records; the splits are train\."):
        run_job(DataPrepJob.parse(job))
