"""Pixels equal TensorFlow's after decoding, cropping and standardizing, both for files written by Pillow and for photographs."""

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from PIL import Image
from tests.converter.transforms import image_batches
from tests.converter.transforms.image_batches import file_of

from dataprep_api.spec.transforms.images import Decode, Resize
from dataprep_converter.images import image_files, resampling
from workbench.example_inputs import scikit_learn_data

pytestmark = pytest.mark.interop

Pixels = npt.NDArray[np.uint8]


@pytest.fixture(scope="session")
def photo() -> Image.Image:
    """A photograph with odd sides, so that blocks and chroma samples are incomplete at its edges."""
    with Image.open(scikit_learn_data() / "images/china.jpg") as found:
        return found.convert("RGB").crop((100, 50, 431, 297))


def decoded(data: bytes, channels: int = 3, **options: Any) -> Pixels:
    decode = Decode.model_validate({"channels": channels, **options})
    return image_files.decoded(data, image_files.header(data, decode), decode)


def tf_jpeg(tf: Any, data: bytes, channels: int = 3) -> Pixels:
    found: Pixels = tf.io.decode_jpeg(data, channels=channels, dct_method="INTEGER_ACCURATE").numpy()
    return found


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("progressive", [False, True], ids=["baseline", "progressive"])
@pytest.mark.parametrize("subsampling", ["4:4:4", "4:2:2", "4:2:0", "4:1:1"])
@pytest.mark.parametrize("quality", [35, 92])
def test_a_jpeg_is_equal(tf: Any, photo: Image.Image, quality: int, subsampling: str, progressive: bool, channels: int) -> None:
    data = file_of(photo, "JPEG", quality=quality, subsampling=subsampling, progressive=progressive)
    np.testing.assert_array_equal(decoded(data, channels), tf_jpeg(tf, data, channels))


@pytest.mark.parametrize("channels", [1, 3])
def test_a_grey_jpeg_is_equal(tf: Any, photo: Image.Image, channels: int) -> None:
    data = file_of(photo.convert("L"), "JPEG")
    np.testing.assert_array_equal(decoded(data, channels), tf_jpeg(tf, data, channels))


@pytest.mark.parametrize("adobe", [True, False], ids=["adobe", "no marker"])
def test_a_cmyk_jpeg_is_equal(tf: Any, photo: Image.Image, adobe: bool) -> None:
    data = file_of(photo.convert("CMYK"), "JPEG")
    if not adobe:
        start = data.index(b"\xff\xee\x00\x0eAdobe")
        data = data[:start] + data[start + 16 :]
    np.testing.assert_array_equal(decoded(data), tf_jpeg(tf, data))


def test_an_exif_orientation_is_left_as_tensorflow_does_when_asked(tf: Any, photo: Image.Image) -> None:
    exif = Image.Exif()
    exif[0x0112] = 6
    data = file_of(photo, "JPEG", exif=exif)
    np.testing.assert_array_equal(decoded(data, applyOrientation=False), tf_jpeg(tf, data))
    np.testing.assert_array_equal(decoded(data), np.rot90(tf_jpeg(tf, data), -1))


def with_alpha(photo: Image.Image) -> Image.Image:
    alpha = Image.linear_gradient("L").resize(photo.size)
    picture = photo.copy()
    picture.putalpha(alpha)
    return picture


PNGS: dict[str, Callable[[Image.Image], Image.Image]] = {
    "rgb": lambda photo: photo,
    "rgba": with_alpha,
    "grey": lambda photo: photo.convert("L"),
    "grey and alpha": lambda photo: with_alpha(photo).convert("LA"),
    "palette": lambda photo: photo.quantize(200),
    "one bit": lambda photo: photo.convert("1"),
    "four bits": lambda photo: photo.quantize(16),
    "16 bits": lambda photo: Image.fromarray(np.asarray(photo.convert("L"), np.uint16) * 257 + 128),
}


@pytest.mark.parametrize(
    ("kind", "channels"),
    [(kind, channels) for kind in PNGS for channels in (3, 4) if (kind, channels) not in {("one bit", 4), ("four bits", 4)}],
)
def test_a_png_is_equal(tf: Any, photo: Image.Image, kind: str, channels: int) -> None:
    data = file_of(PNGS[kind](photo), "PNG")
    np.testing.assert_array_equal(decoded(data, channels), tf.io.decode_png(data, channels=channels).numpy())


@pytest.mark.parametrize(("kind", "opaque"), [("one bit", 1), ("four bits", 15)])
def test_a_png_of_few_bits_is_equal_but_for_tensorflows_alpha(tf: Any, photo: Image.Image, kind: str, opaque: int) -> None:
    data = file_of(PNGS[kind](photo), "PNG")
    ours, theirs = decoded(data, 4), tf.io.decode_png(data, channels=4).numpy()
    np.testing.assert_array_equal(ours[:, :, :3], theirs[:, :, :3])
    assert set(ours[:, :, 3].flat) == {255}
    assert set(theirs[:, :, 3].flat) == {opaque}


@pytest.mark.parametrize("kind", ["grey", "grey and alpha", "one bit", "16 bits"])
def test_a_grey_png_in_one_channel_is_equal(tf: Any, photo: Image.Image, kind: str) -> None:
    data = file_of(PNGS[kind](photo), "PNG")
    np.testing.assert_array_equal(decoded(data, 1), tf.io.decode_png(data, channels=1).numpy())


def test_a_png_with_a_transparent_colour_is_equal(tf: Any, photo: Image.Image) -> None:
    data = file_of(photo.quantize(200), "PNG", transparency=3)
    np.testing.assert_array_equal(decoded(data, 4), tf.io.decode_png(data, channels=4).numpy())


def test_a_bmp_is_equal(tf: Any, photo: Image.Image) -> None:
    data = file_of(photo, "BMP")
    np.testing.assert_array_equal(decoded(data), tf.io.decode_bmp(data, channels=3).numpy())


def test_the_first_frame_of_a_gif_is_equal(tf: Any, photo: Image.Image) -> None:
    data = file_of(photo.quantize(100), "GIF", save_all=True, append_images=[photo.rotate(90).quantize(100)])
    np.testing.assert_array_equal(decoded(data), tf.io.decode_gif(data).numpy()[0])


PAIRS = [
    ((500, 400), (482, 415)), ((375, 500), (482, 415)), ((482, 415), (482, 415)), ((483, 414), (482, 415)), ((481, 416), (482, 415)),
    ((1, 1), (4, 4)), ((1, 1), (5, 5)), ((2, 3), (5, 4)), ((3, 2), (4, 5)), ((5, 5), (1, 1)), ((6, 6), (1, 1)), ((7, 4), (4, 7)),
    ((4, 7), (7, 4)), ((8, 9), (3, 20)), ((9, 8), (20, 3)), ((33, 64), (32, 32)), ((32, 63), (33, 31)), ((10, 11), (11, 10)),
    ((100, 1), (99, 2)), ((13, 17), (6, 40)),
]  # fmt: skip


@pytest.mark.parametrize(("size", "target"), PAIRS, ids=str)
def test_crop_or_pad_is_equal(tf: Any, size: tuple[int, int], target: tuple[int, int]) -> None:
    image = np.random.default_rng(1).integers(1, 256, (*size, 3), np.uint8)
    done = image_batches.applied(image_batches.tensors(image), {"cropOrPad": {"height": target[0], "width": target[1]}})
    expected = tf.image.resize_with_crop_or_pad(image, *target).numpy()
    np.testing.assert_array_equal(image_batches.pixels(done), expected[None])


@pytest.mark.parametrize("kind", ["uint8", "float32"])
def test_standardize_agrees(tf: Any, photo: Image.Image, kind: str) -> None:
    image = np.asarray(photo).astype(kind)
    done = image_batches.pixels(image_batches.applied(image_batches.tensors(image), {"standardize": {}}))
    np.testing.assert_allclose(done[0], tf.image.per_image_standardization(image).numpy(), rtol=0, atol=1e-5)


def test_a_constant_image_standardizes_to_zeros_in_both(tf: Any) -> None:
    image = np.full((482, 415, 3), 128, np.uint8)
    done = image_batches.pixels(image_batches.applied(image_batches.tensors(image), {"standardize": {}}))
    assert not done.any()
    assert not tf.image.per_image_standardization(image).numpy().any()


SIZES = [(64, 64), (200, 150), (300, 500), (247, 100)]


def difference(tf: Any, photo: Image.Image, method: str, size: tuple[int, int]) -> npt.NDArray[np.float64]:
    """The difference between the transform's bytes and TensorFlow's floats."""
    image = np.asarray(photo)
    theirs = tf.image.resize(image, size, method=method.lower(), antialias=method.startswith("Bi")).numpy()
    found: npt.NDArray[np.float64] = np.abs(resampling.resized(image, *size, method).astype(np.float64) - np.clip(theirs, 0, 255))
    return found


@pytest.mark.parametrize("size", SIZES, ids=str)
@pytest.mark.parametrize(("method", "tolerance"), [("Bilinear", 1.01), ("Area", 0.51), ("Nearest", 0)])
def test_resizing_agrees(tf: Any, photo: Image.Image, method: str, tolerance: float, size: tuple[int, int]) -> None:
    assert difference(tf, photo, method, size).max() <= tolerance


@pytest.mark.parametrize("size", SIZES, ids=str)
def test_bicubic_agrees_but_where_it_overshoots(tf: Any, photo: Image.Image, size: tuple[int, int]) -> None:
    # Pillow clips to 0 … 255 after each of the two passes; TensorFlow doesn't clip at all.
    found = difference(tf, photo, "Bicubic", size)
    assert np.quantile(found, 0.999) <= 1.5
    assert found.max() <= 12


def test_the_shortest_side_keeps_proportions_rounded_down() -> None:
    resize = Resize.model_validate({"shortestSide": 256})
    assert [resampling.size_after(resize, *size) for size in [(375, 500), (500, 375), (256, 256), (100, 333)]] == [
        (256, 341), (341, 256), (256, 256), (256, 852),
    ]  # fmt: skip
