"""Steps for image columns: their results, the errors while planning, and the samples that become bad."""

import io
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from PIL import Image
from pydantic import ValidationError
from tests.converter.transforms.image_batches import applied, drawn, file_of, files, pixels, reasons, schema_after, schema_of, tensors

from dataprep_api.spec import Transform
from dataprep_converter.core.errors import BadSpec
from dataprep_converter.pipeline.features import resolve
from dataprep_converter.records.batch import RejectedSample
from dataprep_converter.transforms.crop_or_pad import overlap

JPEGS = (file_of(drawn(60, 80)), file_of(drawn(81, 55, seed=1)), file_of(drawn(40, 40, mode="L")))


def column(batch: Any, name: str) -> list[Any]:
    found: list[Any] = batch.records.column(name).to_pylist()
    return found


# --- decode -------------------------------------------------------------------------------------------------------


def test_decode_knows_the_sizes_at_once() -> None:
    done = applied(files(*JPEGS), {"decode": {}})
    assert done.records.schema.names == ["image", "image/height", "image/width", "_sample"]
    assert column(done, "image/height") == [60, 81, 40]
    assert column(done, "image/width") == [80, 55, 40]


def test_decode_swaps_the_sizes_of_an_image_that_lies_on_its_side() -> None:
    exif = Image.Exif()
    exif[0x0112] = 6
    lying = files(file_of(drawn(60, 80), exif=exif))
    assert column(applied(lying, {"decode": {}}), "image/height") == [80]
    assert column(applied(lying, {"decode": {"applyOrientation": False}}), "image/height") == [60]


def test_decode_adds_no_sizes_where_there_are_none() -> None:
    batch = files(*JPEGS)
    bare = schema_after(schema_of(batch), {"select": {"columns": ["image/encoded"]}}, {"decode": {}})
    assert bare.names == ["image"]


def test_a_column_of_another_name_keeps_it() -> None:
    done = applied(
        files(JPEGS[0], photo=pa.array([JPEGS[1]])),
        {"decode": {"column": "photo"}},
        {"cropOrPad": {"column": "photo", "height": 81, "width": 55}},
    )
    np.testing.assert_array_equal(pixels(done, "photo")[0].mean(axis=2) > 0, np.ones((81, 55), bool))
    assert column(done, "image/format") == ["jpeg"]


def test_an_image_without_a_value_or_without_a_header_is_bad() -> None:
    done = applied(files(None, JPEGS[0], b"", b"text"), {"decode": {}})
    assert done.bad == [
        RejectedSample(10, "image/encoded has no value"),
        RejectedSample(12, "the file is empty"),
        RejectedSample(13, "not an image: it begins with 74 65 78 74"),
    ]
    assert column(done, "_sample") == [11]


def test_decode_refuses_numbers() -> None:
    with pytest.raises(
        BadSpec, match=r"The transform decode takes the bytes of files, but the column 'image' is extension<arrow\.fixed_shape_tensor"
    ):
        schema_after(schema_of(tensors(np.zeros((2, 2, 3), np.uint8))), {"decode": {"column": "image"}})


def test_decode_does_not_overwrite_a_column() -> None:
    kinds: dict[str, pa.DataType] = {"image/encoded": pa.binary(), "image": pa.int64()}
    schema = pa.schema(kinds)
    with pytest.raises(BadSpec, match="turns 'image/encoded' into the column 'image', but that column already exists; rename it first"):
        schema_after(schema, {"decode": {}})


# --- images of different sizes, and steps that can't process them --------------------------------------------------


@pytest.mark.parametrize(
    ("transform", "message"),
    [
        ({"scale": {"columns": ["image"]}}, "The transform scale takes numbers, but the column 'image' is images of different sizes"),
        ({"standardize": {}}, "The transform standardize takes numeric tensors, but the column 'image' is images of different sizes"),
        (
            {"cast": {"columns": ["image"], "dtype": "float32"}},
            "The transform cast takes numbers, but the column 'image' is images of different",
        ),
        (
            {"decode": {"column": "image"}},
            "The transform decode takes the bytes of files, but the column 'image' is images of different sizes",
        ),
    ],
    ids=["scale", "standardize", "cast", "decode"],
)
@pytest.mark.parametrize("before", [[], [{"resize": {"shortestSide": 32}}]], ids=["decode", "shortest side"])
def test_a_step_that_needs_one_size_says_how_to_get_it(before: list[Any], transform: Any, message: str) -> None:
    advice = r" \(after decode, add resize with height and width, cropOrPad, or encode\)\.$"
    with pytest.raises(BadSpec, match=message) as found:
        schema_after(schema_of(files()), {"decode": {}}, *before, transform)
    assert found.match(advice)


def test_a_chain_that_ends_without_one_size_is_refused_with_the_advice() -> None:
    schema = schema_after(schema_of(files()), {"decode": {}})
    with pytest.raises(BadSpec) as found:
        resolve(None, None, schema=schema, default_label="label")
    assert str(found.value) == (
        "The feature 'image': the column 'image' is images of different sizes (after decode, add resize with height and width, cropOrPad, or"
        " encode), which records can't contain."
    )


def test_rows_are_filtered_and_renamed_between_decode_and_resize() -> None:
    chain: list[Any] = [
        {"decode": {}},
        {"filter": {"where": 'col("image/height") != 81'}},
        {"rename": {"columns": {"image": "photo"}}},
        {"resize": {"column": "photo", "height": 8, "width": 9}},
    ]
    done = applied(files(*JPEGS), *chain)
    expected = pixels(applied(files(JPEGS[0], JPEGS[2]), {"decode": {}}, {"resize": {"height": 8, "width": 9}}))
    np.testing.assert_array_equal(pixels(done, "photo"), expected)
    assert done.filtered == 1


def test_a_slice_of_a_batch_has_its_own_images() -> None:
    batch = applied(files(*JPEGS), {"decode": {}})
    resize = {"resize": {"height": 8, "width": 9}}
    whole = pixels(applied(batch, resize))
    part = applied(type(batch)(records=batch.records.slice(1, 2), bad=[], bytes_in=0), resize)
    np.testing.assert_array_equal(pixels(part), whole[1:])


# --- resize -------------------------------------------------------------------------------------------------------


def test_any_input_becomes_64_by_64_in_three_channels() -> None:
    done = applied(files(*JPEGS, file_of(drawn(30, 30, mode="RGBA"), "PNG")), {"decode": {}}, {"resize": {"height": 64, "width": 64}})
    assert pixels(done).shape == (4, 64, 64, 3)
    assert pixels(done)[0].nbytes == 12_288
    assert column(done, "image/height") == column(done, "image/width") == [64] * 4


@pytest.mark.parametrize("method", ["Bilinear", "Bicubic", "Nearest"])
@pytest.mark.parametrize("mode", ["L", "RGB", "RGBA"])
def test_resizing_is_pillows(mode: str, method: str) -> None:
    picture = drawn(50, 70, mode=mode)
    chain: list[Any] = [
        {"decode": {"channels": len(mode) if mode != "L" else 1}},
        {"resize": {"height": 23, "width": 90, "method": method}},
    ]
    expected = np.asarray(picture.resize((90, 23), Image.Resampling[method.upper()])).reshape(23, 90, -1)
    np.testing.assert_array_equal(pixels(applied(files(file_of(picture, "PNG")), *chain))[0], expected)


def test_area_is_the_mean_of_what_a_pixel_covers() -> None:
    image = np.array([[0, 30, 60], [90, 120, 150]], np.uint8)[:, :, None]
    # Each output pixel covers one and a half input columns: (0 + 30/2) / 1.5 = 10 and (30/2 + 60) / 1.5 = 50. In the second row, each value
    # is greater by 90.
    done = applied(tensors(image), {"resize": {"height": 1, "width": 2, "method": "Area"}})
    assert pixels(done)[0, :, :, 0].tolist() == [[55, 95]]
    larger = applied(tensors(image), {"resize": {"height": 2, "width": 6, "method": "Area"}})
    assert pixels(larger)[0, 0, :, 0].tolist() == [0, 0, 30, 30, 60, 60]


def test_the_shortest_side_keeps_the_proportions() -> None:
    done = applied(files(*JPEGS), {"decode": {}}, {"resize": {"shortestSide": 20}})
    assert list(zip(column(done, "image/height"), column(done, "image/width"), strict=True)) == [(20, 26), (29, 20), (20, 20)]
    cut = applied(done, {"cropOrPad": {"height": 20, "width": 20}})
    expected = np.asarray(Image.open(io.BytesIO(JPEGS[2])).convert("RGB").resize((20, 20), Image.Resampling.BILINEAR))
    np.testing.assert_allclose(pixels(cut)[2].astype(int), expected.astype(int), atol=2)


def test_tensors_of_one_size_keep_one_size() -> None:
    image = np.arange(12, dtype=np.uint8).reshape(3, 4)
    assert pixels(applied(tensors(image), {"resize": {"shortestSide": 6}})).shape == (1, 6, 8)


def test_fast_decodes_a_large_jpeg_smaller_and_looks_the_same() -> None:
    large = file_of(drawn(800, 1000).resize((1000, 800), Image.Resampling.BICUBIC), quality=95)
    exact, fast = (
        pixels(applied(files(large), {"decode": {}}, {"resize": {"height": 90, "width": 120, "fast": fast}}))[0] for fast in (False, True)
    )
    assert (exact != fast).any()
    assert np.abs(exact.astype(int) - fast).mean() < 4


def test_fast_changes_nothing_where_half_would_be_too_small() -> None:
    chain: list[Any] = [{"decode": {}}, {"resize": {"height": 31, "width": 30, "fast": True}}]
    slow: list[Any] = [{"decode": {}}, {"resize": {"height": 31, "width": 30}}]
    np.testing.assert_array_equal(pixels(applied(files(JPEGS[0]), *chain)), pixels(applied(files(JPEGS[0]), *slow)))


def test_fast_keeps_to_the_sides_of_a_turned_image() -> None:
    exif = Image.Exif()
    exif[0x0112] = 6
    data = file_of(drawn(60, 400), exif=exif)  # after rotation: 400 high, 60 wide
    done = applied(files(data), {"decode": {}}, {"resize": {"height": 190, "width": 25, "fast": True}})
    assert pixels(done).shape == (1, 190, 25, 3)


def test_resize_refuses_floats_and_says_where_it_belongs() -> None:
    schema = schema_of(tensors(np.zeros((2, 2, 3), np.float32)))
    with pytest.raises(
        BadSpec,
        match=r"The transform resize takes images of uint8, but the column 'image' is extension.*put this transform right after decode\.",
    ):
        schema_after(schema, {"resize": {"height": 2, "width": 2}})


def test_an_image_that_cannot_be_decoded_is_bad_with_the_reason() -> None:
    cut = JPEGS[0][: len(JPEGS[0]) // 2] + b"\xff\xd9"
    done = applied(files(JPEGS[1], cut, JPEGS[2]), {"decode": {}}, {"resize": {"height": 8, "width": 8}})
    assert done.bad == [RejectedSample(11, "damaged jpeg: Corrupt JPEG data: premature end of data segment")]
    assert column(done, "_sample") == [10, 12]
    assert pixels(done).shape == (2, 8, 8, 3)


# --- cropOrPad ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("size", "target", "before_and_after"),
    [(500, 482, (-9, -9)), (400, 415, (7, 8)), (375, 482, (53, 54)), (500, 415, (-42, -43)), (5, 5, (0, 0))],
    ids=["crop 500 to 482", "pad 400 to 415", "pad 375 to 482", "crop 500 to 415", "as it is"],
)
def test_the_odd_pixel_goes_to_the_far_end(size: int, target: int, before_and_after: tuple[int, int]) -> None:
    first, to, length = overlap(size, target)
    assert (to - first, (target - to - length) - (size - first - length)) == before_and_after


def test_images_are_cropped_and_padded_to_482_by_415() -> None:
    batch = files(file_of(drawn(500, 400), "PNG"), file_of(drawn(375, 500), "PNG"))
    done = applied(batch, {"decode": {}}, {"cropOrPad": {"height": 482, "width": 415}})
    first, second = pixels(done)
    assert first.shape == (482, 415, 3)
    np.testing.assert_array_equal(first[:, 7 : 7 + 400], np.asarray(drawn(500, 400))[9 : 9 + 482])
    assert not first[:, :7].any()
    assert not first[:, 407:].any()
    np.testing.assert_array_equal(second[53 : 53 + 375], np.asarray(drawn(375, 500))[:, 42 : 42 + 415])
    assert not second[:53].any()
    assert not second[428:].any()
    assert column(done, "image/height") == [482, 482]
    assert column(done, "image/width") == [415, 415]


@pytest.mark.parametrize("dtype", ["float32", "int64", "uint8"])
def test_tensors_of_any_numbers_are_cropped(dtype: str) -> None:
    done = applied(tensors(np.arange(6).reshape(2, 3).astype(dtype)), {"cropOrPad": {"height": 3, "width": 1}})
    assert pixels(done).dtype == dtype
    assert pixels(done)[0].tolist() == [[1], [4], [0]]


# --- encode -------------------------------------------------------------------------------------------------------


def test_encoded_images_have_true_columns() -> None:
    batch = files(*JPEGS, **{"image/class/label": pa.array([1, 2, 3])})
    done = applied(batch, {"decode": {}}, {"resize": {"shortestSide": 20}}, {"encode": {"format": "Png"}})
    assert done.records.schema.names == ["image/encoded", "image/format", "image/height", "image/width", "image/class/label", "_sample"]
    assert column(done, "image/format") == ["png"] * 3
    for data, height, width in zip(column(done, "image/encoded"), column(done, "image/height"), column(done, "image/width"), strict=True):
        with Image.open(io.BytesIO(data)) as stored:
            assert (stored.format, stored.size, stored.mode) == ("PNG", (width, height), "RGB")


def test_png_and_back_keeps_every_pixel() -> None:
    chain: list[Any] = [{"decode": {}}, {"cropOrPad": {"height": 50, "width": 50}}]
    once = applied(files(*JPEGS), *chain)
    again = applied(applied(once, {"encode": {"format": "Png"}}), {"decode": {}}, {"cropOrPad": {"height": 50, "width": 50}})
    np.testing.assert_array_equal(pixels(again), pixels(once))


def test_an_alpha_channel_is_refused_for_a_jpeg() -> None:
    with pytest.raises(
        BadSpec,
        match=r"The transform encode: a Jpeg has no alpha channel, but 'image' has 4 channels; decode to 3 channels, or set format: Png\.",
    ):
        schema_after(schema_of(files()), {"decode": {"channels": 4}}, {"encode": {}})


def test_encode_does_not_overwrite_a_column() -> None:
    with pytest.raises(BadSpec, match="The transform encode makes the column 'photo/encoded', but that column already exists"):
        schema_after(
            pa.schema([("photo", pa.binary()), ("photo/encoded", pa.binary())]),
            {"decode": {"column": "photo"}},
            {"encode": {"column": "photo"}},
        )


def test_a_bad_image_is_found_while_encoding() -> None:
    cut = JPEGS[0][: len(JPEGS[0]) // 2] + b"\xff\xd9"
    done = applied(files(cut, JPEGS[1]), {"decode": {}}, {"encode": {}})
    assert reasons(done) == ["damaged jpeg: Corrupt JPEG data: premature end of data segment"]
    assert column(done, "image/height") == [81]


# --- the spec -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("transform", "message"),
    [
        ({"resize": {"height": 3}}, "set either height and width, or shortestSide"),
        ({"resize": {"height": 3, "width": 3, "shortestSide": 3}}, "set either height and width, or shortestSide"),
        ({"resize": {}}, "set either height and width, or shortestSide"),
        ({"decode": {"paletteIndexes": True}}, "paletteIndexes needs channels: 1, got 3"),
        ({"standardize": {"mean": [0.5]}}, "mean and deviation must be set together"),
        ({"standardize": {"mean": [0.5], "deviation": [0]}}, r"deviations must be above 0, got \[0.0\]"),
    ],
    ids=str,
)
def test_a_spec_that_contradicts_itself_is_refused(transform: Any, message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        Transform.model_validate(transform)


@pytest.mark.parametrize(
    "empty", [[{"resize": {"height": 4, "width": 4}}], [{"resize": {"shortestSide": 4}}, {"encode": {}}]], ids=["tensors", "files"]
)
def test_a_batch_without_records_goes_through(empty: list[Any]) -> None:
    assert applied(files(), {"decode": {}}, *empty).records.num_rows == 0
