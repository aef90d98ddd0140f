"""AVIF and HEIC: headers, orientations, damaged files, and the advice if a decoder is missing. Pillow and pillow-heif make the files."""

import contextlib
import io
import sys
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import pillow_heif
import pytest
from PIL import Image, ImageOps, features
from tests.converter.transforms.image_batches import drawn, file_of

from dataprep_api.spec.transforms.images import Decode
from dataprep_converter.core.errors import BadSample
from dataprep_converter.images import heif_headers, image_files, image_headers
from dataprep_converter.images.image_headers import ImageHeader

AVIF = file_of(drawn(20, 30), "AVIF")


@pytest.fixture(autouse=True)
def _forgotten_plugins() -> Iterator[None]:
    image_files._plugin.cache_clear()
    yield
    image_files._plugin.cache_clear()


def decoded(data: bytes, *, upright: bool = True) -> npt.NDArray[np.uint8]:
    decode = Decode(apply_orientation=upright)
    return image_files.decoded(data, image_files.header(data, decode), decode)


@pytest.mark.parametrize("mode", ["RGB", "RGBA", "L"])
def test_an_avif_header_has_the_size(mode: str) -> None:
    assert image_headers.parse(file_of(drawn(20, 30).convert(mode), "AVIF")) == ImageHeader("avif", height=20, width=30)


def test_an_avif_has_about_its_pixels() -> None:
    picture = drawn(40, 30)
    difference = np.abs(decoded(file_of(picture, "AVIF", quality=100, subsampling="4:4:4")).astype(int) - np.asarray(picture))
    assert difference.mean() < 3


@pytest.mark.parametrize("orientation", range(1, 9))
def test_an_avif_is_turned_as_pillow_turns_it(orientation: int) -> None:
    exif = Image.Exif()
    exif[0x0112] = orientation
    data = file_of(drawn(20, 30), "AVIF", exif=exif, quality=100)
    assert heif_headers.main_image(data, "avif").orientation == orientation
    with Image.open(io.BytesIO(data)) as stored:
        upright = np.asarray(ImageOps.exif_transpose(stored).convert("RGB"))
        np.testing.assert_array_equal(decoded(data, upright=False), np.asarray(stored.convert("RGB")))
    np.testing.assert_array_equal(decoded(data), upright)


DAMAGED: dict[str, tuple[bytes, str]] = {
    "cut": (AVIF[:-1], f"truncated avif: {len(AVIF) - 1:,} of {len(AVIF):,} bytes"),
    "cut in its boxes": (AVIF[:60], "truncated avif: 60 of "),
    "only a first box": (AVIF[: int.from_bytes(AVIF[:4], "big")], "damaged avif: it has no meta box"),
    "no size": (AVIF.replace(b"ispe", b"free"), "damaged avif: its main image has no size"),
    "no main image": (AVIF.replace(b"pitm", b"free"), "damaged avif: it doesn't say which image is the main one"),
    "a box without a size of its own": (AVIF.replace(b"\0\0\0\x14ispe", b"\0\0\0\x04ispe"), "has a size of 4"),
    "a video": (b"\0\0\0\x18ftypisom" + bytes(40), "not an image: it begins with"),
}  # fmt: skip


@pytest.mark.parametrize(("data", "reason"), DAMAGED.values(), ids=DAMAGED.keys())
def test_a_damaged_avif_is_told_by_its_fault(data: bytes, reason: str) -> None:
    with pytest.raises(BadSample) as caught:
        image_headers.parse(data)
    assert reason in str(caught.value)


@pytest.mark.parametrize("at", range(0, len(AVIF) - 1, 3))
def test_no_cut_or_flipped_byte_of_an_avif_breaks_the_reader(at: int) -> None:
    with pytest.raises(BadSample):
        image_headers.parse(AVIF[:at])
    flipped = bytearray(AVIF)
    flipped[at] ^= 0xFF
    with contextlib.suppress(BadSample):
        assert image_headers.parse(bytes(flipped)).format in ("avif", "heic")


def test_damaged_pixels_of_an_avif_are_a_bad_sample() -> None:
    start = AVIF.index(b"mdat") + 4
    with pytest.raises(BadSample, match="^damaged avif: "):
        decoded(AVIF[:start] + bytes(len(AVIF) - start))


def test_a_pillow_without_avif_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(features, "check", lambda _: False)
    with pytest.raises(BadSample, match=r"^it is an avif file, and this Pillow was built without AVIF: install Pillow's own wheel$"):
        decoded(AVIF)


def test_a_missing_decoder_of_heic_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    data = AVIF.replace(b"avif", b"heic").replace(b"avis", b"heic")
    assert image_headers.parse(data) == ImageHeader("heic", height=20, width=30)
    monkeypatch.setitem(sys.modules, "pillow_heif", None)
    with pytest.raises(BadSample, match=r"^it is a heic file, which needs pillow-heif: pip install 'dataprep-operator\[heic\]'$"):
        decoded(data)


@pytest.mark.parametrize("orientation", range(1, 9))
def test_a_heic_is_turned_as_pillow_heif_turns_it(orientation: int) -> None:
    exif = Image.Exif()
    exif[0x0112] = orientation
    out = io.BytesIO()
    pillow_heif.from_pillow(drawn(64, 96)).save(out, quality=100, exif=exif.tobytes())
    data = out.getvalue()
    main = heif_headers.main_image(data, "heic")
    assert (main.height, main.width, main.orientation) == (64, 96, orientation)
    upright = np.asarray(pillow_heif.open_heif(io.BytesIO(data)).to_pillow().convert("RGB"))
    np.testing.assert_array_equal(decoded(data), upright)
    difference = np.abs(decoded(data, upright=False).astype(int) - np.asarray(drawn(64, 96)))
    assert difference.mean() < 6
