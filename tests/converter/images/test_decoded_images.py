"""Complete jobs that decode folders of images: the records, the manifest, and the peak of the memory use."""

import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from PIL import Image
from tests.builders.jobs import run_job
from tests.builders.specs import parse_job
from tests.converter.transforms.image_batches import drawn, file_of

from dataprep_api.resources.job import DataPrepJob
from dataprep_api.spec import Transform
from dataprep_converter.core.errors import BadSpec
from dataprep_converter.formats.tfrecord import records
from dataprep_converter.inputs.access import Access
from dataprep_converter.pipeline.pipeline import Pipeline
from dataprep_converter.planning.planner import make_plan
from dataprep_converter.records.batch import Batch, RejectedSample
from dataprep_converter.transforms import decode
from dataprep_converter.transforms.encode import EncodeStep
from dataprep_converter.transforms.pixels import images_array


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Write seven images of different sizes and formats in two classes."""
    source = tmp_path / "in"
    for number in range(7):
        file = source / ("cat", "dog")[number % 2] / f"{number}.{('jpg', 'png')[number % 3 == 0]}"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(file_of(drawn(40 + 9 * number, 90 - 5 * number, seed=number), ("JPEG", "PNG")[number % 3 == 0]))
    return source


def a_job(source: Path, *transforms: Any, **spec: Any) -> DataPrepJob:
    output = {"uri": str(source.parent / "out"), "shards": {"count": 1}, "fileName": "all.{ext}"}
    return parse_job(
        {"source": {"images": {"uris": [str(source)]}}, "transforms": list(transforms), "output": output, **spec}, name="images"
    )


def made(job: DataPrepJob) -> list[dict[str, list[Any]]]:
    run_job(job)
    file = next(Path(job.spec.output.uri).glob("all.*"))
    return [records.parse_example(payload) for _, payload in records.read([file.read_bytes()])]


def manifest(job: DataPrepJob) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(next(Path(job.spec.output.uri).glob("_dataprep/*/manifest.json")).read_bytes())
    return found


def test_images_that_are_many_pixels_are_encoded_a_few_at_a_time(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "cat" / "3x.png").write_bytes(b"none")
    cut = (folder / "dog" / "5x.png", file_of(drawn(60, 60), "PNG"))
    cut[0].write_bytes(cut[1][:400] + cut[1][-12:])
    steps = [{"decode": {}}, {"resize": {"shortestSide": 30}}, {"encode": {"format": "Png"}}]
    bad = {"policy": "Quarantine", "maxCount": 9}
    whole = a_job(folder, *steps, onBadRecord=bad)
    expected = made(whole)
    monkeypatch.setattr(decode, "MOST_PIXELS", 8000)
    counted: list[int] = []
    encode = EncodeStep.apply

    def counting(step: EncodeStep, batch: Batch) -> Batch:
        counted.append(batch.records.num_rows)
        return encode(step, batch)

    monkeypatch.setattr(EncodeStep, "apply", counting)
    apart = a_job(
        folder, *steps, onBadRecord=bad, output={"uri": str(folder.parent / "apart"), "shards": {"count": 1}, "fileName": "all.{ext}"}
    )
    assert made(apart) == expected
    assert max(counted) < 8
    keys = ("recordsIn", "recordsOut", "bad", "badExamples", "digest")
    assert {key: manifest(apart)[key] for key in keys} == {key: manifest(whole)[key] for key in keys}
    reports = [json.loads(next(Path(job.spec.output.uri).glob("_dataprep/*/reports/*.json")).read_bytes()) for job in (apart, whole)]
    assert [report["badReasons"] for report in reports] == [{"Transform": 1, "Unreadable": 1}] * 2
    assert reports[0]["bytesIn"] == reports[1]["bytesIn"] > 0


@pytest.mark.parametrize(
    ("sizes", "expected"), [([], [0]), ([3], [1]), ([3, 3, 3], [2, 1]), ([9, 1, 9], [1, 1, 1]), ([1] * 13, [6, 6, 1]), ([0, 0, 6, 0], [4])]
)
def test_a_batch_is_cut_where_it_has_more_pixels(sizes: list[int], expected: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decode, "MOST_PIXELS", 6)
    step = decode.DecodeStep(Transform.model_validate({"decode": {}}).member, pa.schema({"image/encoded": pa.large_binary()}))
    kind = step.schema().field("image").type
    images = images_array(
        pa.array([b""] * len(sizes), pa.large_binary()), np.array([[1, size] for size in sizes], np.int64).reshape(-1, 2), kind
    )
    records = pa.RecordBatch.from_arrays([images, pa.array(range(len(sizes)), pa.int64())], names=["image", "_sample"])
    parts = list(step.cut(Batch(records=records, bad=[RejectedSample(99, "bad")], bytes_in=7, filtered=2, added=1)))
    assert [part.records.num_rows for part in parts] == expected
    assert [row for part in parts for row in part.records.column("_sample").to_pylist()] == list(range(len(sizes)))
    assert [(len(part.bad), part.bytes_in, part.filtered, part.added) for part in parts] == [(1, 7, 2, 1)] + [(0, 0, 0, 0)] * (
        len(parts) - 1
    )


def test_float16_is_stored_as_bytes_with_its_type_and_shape_in_the_manifest(folder: Path) -> None:
    job = a_job(folder, {"decode": {}}, {"cropOrPad": {"height": 48, "width": 41}}, {"standardize": {"dtype": "float16"}})
    found = made(job)
    assert len(found) == 7
    assert found[0].keys() == {"image", "image/class/label", "image/class/text", "image/height", "image/width"}
    assert [(r["image/height"], r["image/width"]) for r in found] == [([48], [41])] * 7
    first = np.frombuffer(found[0]["image"][0], "<f2").reshape(48, 41, 3).astype(np.float64)
    assert abs(first.mean()) < 1e-3
    assert abs(first.std() - 1) < 1e-3
    image = next(feature for feature in manifest(job)["features"] if feature["name"] == "image")
    assert (image["dtype"], image["shape"], image["raw"]) == ("float16", [48, 41, 3], True)


def test_standardize_and_then_cast_is_the_same_to_half_a_unit(folder: Path) -> None:
    crop = {"cropOrPad": {"height": 48, "width": 41}}
    fused = made(a_job(folder, {"decode": {}}, crop, {"standardize": {"dtype": "float16"}}))
    two = {"cast": {"columns": ["image"], "dtype": "float16"}}
    apart = made(
        a_job(folder, {"decode": {}}, crop, {"standardize": {}}, two, output={"uri": str(folder.parent / "two"), "fileName": "all.{ext}"})
    )
    for one, other in zip(fused, apart, strict=True):
        np.testing.assert_allclose(np.frombuffer(one["image"][0], "<f2"), np.frombuffer(other["image"][0], "<f2"), rtol=2**-10)


def test_images_are_encoded_again_with_true_columns(folder: Path) -> None:
    found = made(a_job(folder, {"decode": {}}, {"resize": {"shortestSide": 32}}, {"encode": {"quality": 90}}))
    for record in found:
        with Image.open(io.BytesIO(record["image/encoded"][0])) as stored:
            assert stored.format == "JPEG"
            assert min(stored.size) == 32
            assert (record["image/height"], record["image/width"]) == ([stored.height], [stored.width])
        assert record["image/format"] == [b"jpeg"]


def test_a_chain_that_ends_with_images_of_different_sizes_fails_while_planning(folder: Path) -> None:
    with pytest.raises(
        BadSpec, match=r"The feature 'image': .*different sizes \(after decode, add resize with height and width, cropOrPad, or encode"
    ):
        make_plan(a_job(folder, {"decode": {}}, {"resize": {"shortestSide": 32}}).spec, Access())
    assert not (folder.parent / "out").exists()


def test_a_broken_image_is_left_out_and_named(folder: Path) -> None:
    file = folder / "dog" / "1.jpg"
    data = file.read_bytes()
    file.write_bytes(data[: len(data) // 2] + b"\xff\xd9")
    job = a_job(folder, {"decode": {}}, {"resize": {"height": 8, "width": 8}}, onBadRecord={"policy": "Skip"})
    assert len(made(job)) == 6
    report = json.loads(next(Path(job.spec.output.uri).glob("_dataprep/*/reports/*.json")).read_bytes())
    (bad,) = report["badExamples"]
    assert bad["uri"].endswith("dog/1.jpg")
    assert bad["reason"] == "damaged jpeg: Corrupt JPEG data: premature end of data segment"


@pytest.mark.parametrize(
    ("transforms", "most"),
    [
        ([{"decode": {}}, {"resize": {"shortestSide": 256}}, {"encode": {}}], 8 << 20),
        ([{"decode": {}}, {"cropOrPad": {"height": 482, "width": 415}}], 13),
        ([{"decode": {}}, {"cropOrPad": {"height": 482, "width": 415}}, {"standardize": {}}], 3),
        (
            [
                {"decode": {}},
                {"cropOrPad": {"height": 482, "width": 415}},
                {"standardize": {}},
                {"cast": {"columns": ["image"], "dtype": "float16"}},
            ],
            3,
        ),
        ([{"decode": {}}, {"resize": {"height": 224, "width": 224}}, {"encode": {}}], 55),
        ([{"decode": {}}, {"resize": {"height": 4000, "width": 4000}}], 1),
    ],
    ids=["files", "uint8", "float32", "float32 on the way", "uint8 on the way", "larger than a batch"],
)
def test_the_tensors_of_a_batch_are_at_most_8_mib(folder: Path, transforms: list[Any], most: int) -> None:
    # The largest image takes 482 x 415 x 3 = 600,090 bytes as uint8, and four times as many as float32.
    assert Pipeline(a_job(folder, *transforms).spec, {"classes": ["cat", "dog"]}, Access()).most_records == most


def test_the_bytes_do_not_depend_on_where_batches_are_cut(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    chain: list[Any] = [{"decode": {}}, {"resize": {"shortestSide": 30}}, {"cropOrPad": {"height": 30, "width": 30}}, {"standardize": {}}]
    digests = set()
    for size in (1, 40_000, 16 << 20):
        monkeypatch.setattr("dataprep_converter.pipeline.pipeline._TENSOR_BYTES", size)
        job = a_job(folder, *chain, output={"uri": str(folder.parent / str(size))})
        run_job(job)
        digests.add(manifest(job)["digest"])
    assert len(digests) == 1
