"""resampling.c gives the same bytes as Pillow, with and without this processor's vector instructions."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from tests.availability import skip_without

from dataprep_converter.core import native
from dataprep_converter.images.orientation import Pixels
from dataprep_converter.images.resampling import resized

METHODS = ["Bilinear", "Bicubic"]
pytestmark = skip_without(native.is_there(), "this machine has no C compiler: resampling.c was not built")


@pytest.fixture(scope="module", params=["as the processor can", "plainly"], autouse=True)
def each(request: pytest.FixtureRequest) -> Any:
    with pytest.MonkeyPatch.context() as patch:
        if request.param == "plainly":
            patch.setattr(native, "_is_wide", lambda: False)
        yield request.param


def by_pillow(image: Pixels, height: int, width: int, method: str) -> Pixels:
    picture = Image.fromarray(image[:, :, 0] if image.shape[2] == 1 else image)
    made = picture.resize((width, height), Image.Resampling[method.upper()])
    return np.asarray(made, np.uint8).reshape(height, width, image.shape[2])


def drawn(height: int, width: int, channels: int, seed: int = 0, *, only_extremes: bool = False) -> Pixels:
    """Return an image of noise. With `only_extremes`, all values are 0 or 255, so sums go beyond the range of a byte."""
    values = np.random.default_rng([seed, height, width]).integers(0, 256, (height, width, channels), np.uint8)
    return np.where(values > 127, np.uint8(255), np.uint8(0)) if only_extremes else values


def agree(image: Pixels, height: int, width: int, method: str) -> None:
    made = native.resample(image, height, width, is_cubic=method == "Bicubic")
    assert made is not None
    np.testing.assert_array_equal(made, by_pillow(image, height, width, method))


sides = st.integers(1, 8) | st.integers(1, 70) | st.integers(1, 700)


@given(sides, sides, sides, sides, st.sampled_from([1, 3]), st.sampled_from(METHODS), st.booleans(), st.integers(0, 1000))
def test_any_size_becomes_any_other(
    height: int, width: int, new_height: int, new_width: int, channels: int, method: str, only_extremes: bool, seed: int
) -> None:
    agree(drawn(height, width, channels, seed, only_extremes=only_extremes), new_height, new_width, method)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize(
    ("before", "after"),
    [
        ((1, 1), (1, 1)),
        ((1, 1), (700, 3)),
        ((700, 500), (1, 1)),
        ((1, 30_000), (1, 7)),
        ((30_000, 1), (7, 1)),
        ((2, 20_000), (5, 20_001)),
        ((20_000, 3), (19_990, 2)),
        ((5, 5), (5, 1000)),
        ((5, 5), (1000, 5)),
        ((64, 64), (64, 32)),
        ((64, 64), (32, 64)),
        ((375, 500), (256, 341)),
        ((257, 31), (16, 33)),
    ],
)
def test_sizes_at_the_ends(before: tuple[int, int], after: tuple[int, int], channels: int, method: str) -> None:
    agree(drawn(*before, channels), *after, method)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("height", [48, 49, 50, 51, 99, 100, 101])
def test_columns_are_first_where_they_are_for_pillow(height: int, method: str) -> None:
    """The result depends on whether rows or columns are resampled first.

    If an image of 100 x 100 pixels is reduced to 75 columns, the order differs between results of 49 rows and of 50 rows. If the image
    keeps its 100 columns, the order changes at 100 rows.
    """
    for width in (75, 100, 101):
        agree(drawn(100, 100, 3), height, width, method)


def test_pixels_that_are_no_neighbours_are_copied() -> None:
    image = drawn(90, 80, 3)
    for seen in (image[::2], image[:, ::-1], image.swapaxes(0, 1), image[5:70, 3:60], image[:, :, :1]):
        agree(seen, 33, 21, "Bicubic")


@pytest.mark.parametrize("method", METHODS)
def test_what_is_beside_the_image_does_not_matter(method: str) -> None:
    image = drawn(9, 7, 3)
    around = np.full((3, *image.shape), 255, np.uint8)
    around[1] = image
    np.testing.assert_array_equal(resized(around[1], 5, 4, method), by_pillow(image, 5, 4, method))


def test_the_rest_is_left_to_pillow() -> None:
    for image, size in ((drawn(6, 5, 4), 3), (drawn(6, 5, 2), 3), (drawn(6, 5, 3), 1 << 24), (drawn(6, 5, 3), 0)):
        assert native.resample(image, 3, size, is_cubic=True) is None


@pytest.mark.parametrize("channels", [1, 3, 4])
@pytest.mark.parametrize("method", [*METHODS, "Nearest"])
def test_without_the_library_the_bytes_are_the_same(channels: int, method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    image = drawn(37, 53, channels)
    made = resized(image, 20, 71, method)
    monkeypatch.setattr(native, "_library", lambda: None)
    np.testing.assert_array_equal(resized(image, 20, 71, method), made)
