"""Decode and encode single files: colours, orientations, damaged files, and files with wrong headers."""

import contextlib
import io
import struct
import subprocess
import sys
import warnings
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image, ImageOps, JpegImagePlugin
from tests.builders.examples import examples
from tests.converter.transforms.image_batches import drawn, file_of

from dataprep_api.spec.transforms.images import Decode, Encode
from dataprep_converter.core.errors import BadSample, BadSpec
from dataprep_converter.images import image_files

Pixels = npt.NDArray[np.uint8]
LOSSLESS: dict[str, dict[str, Any]] = {"PNG": {}, "BMP": {}, "TIFF": {"compression": "tiff_lzw"}, "WEBP": {"lossless": True, "exact": True}}


def decoded(data: bytes, **options: Any) -> Pixels:
    decode = Decode.model_validate(options)
    head = image_files.header(data, decode)
    image = image_files.decoded(data, head, decode)
    assert image.shape == (*head.size, decode.channels)
    assert image.dtype == np.uint8
    return image


def reason(data: bytes, **options: Any) -> str:
    with pytest.raises(BadSample) as found:
        decoded(data, **options)
    return str(found.value)


@pytest.mark.parametrize("kind", LOSSLESS)
def test_a_lossless_file_has_its_pixels(kind: str) -> None:
    picture = drawn(33, 47)
    np.testing.assert_array_equal(decoded(file_of(picture, kind, **LOSSLESS[kind])), np.asarray(picture))


@pytest.mark.parametrize("kind", ["PNG", "TIFF", "WEBP"])
def test_an_alpha_channel_is_kept_or_dropped(kind: str) -> None:
    picture = drawn(20, 30)
    picture.putalpha(drawn(20, 30, mode="L", seed=1))
    data = file_of(picture, kind, **LOSSLESS[kind])
    np.testing.assert_array_equal(decoded(data, channels=4), np.asarray(picture))
    np.testing.assert_array_equal(decoded(data, channels=3), np.asarray(picture)[:, :, :3])


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "GIF", "BMP", "TIFF", "WEBP"])
def test_grey_becomes_three_equal_channels_or_stays_one(kind: str) -> None:
    data = file_of(drawn(20, 30, mode="L"), kind, **LOSSLESS.get(kind, {}))
    colours = decoded(data)
    assert (colours == colours[:, :, :1]).all()
    np.testing.assert_array_equal(decoded(data, channels=1), colours[:, :, :1])
    np.testing.assert_array_equal(decoded(data, channels=4)[:, :, :3], colours)
    assert set(decoded(data, channels=4)[:, :, 3].flat) == {255}


def test_a_photograph_in_one_channel_is_its_luma() -> None:
    picture = drawn(40, 50)
    expected = np.asarray(picture.convert("L"))[:, :, None]
    np.testing.assert_array_equal(decoded(file_of(picture, "PNG"), channels=1), expected)


def test_a_cmyk_jpeg_is_the_photograph() -> None:
    picture = drawn(64, 64)
    inks = Image.merge("CMYK", [*ImageOps.invert(picture).split(), Image.new("L", picture.size, 0)])
    difference = np.abs(decoded(file_of(inks, "JPEG", quality=98)).astype(int) - np.asarray(picture))
    assert difference.mean() < 3
    assert decoded(file_of(inks, "JPEG"), channels=1).shape == (64, 64, 1)


def test_16_bits_are_cut_to_their_upper_8() -> None:
    wide = np.array([[0, 255, 256, 65_535, 0x1234]], np.uint16)
    for kind in ("PNG", "TIFF"):
        assert decoded(file_of(Image.fromarray(wide), kind), channels=1)[0, :, 0].tolist() == [0, 0, 1, 255, 0x12]


def test_32_bits_are_refused_because_nobody_knows_their_range() -> None:
    data = file_of(Image.fromarray(np.ones((2, 2), np.float32)), "TIFF")
    assert reason(data) == "it has 32-bit pixels, whose range isn't known"


def test_a_mask_gives_the_indexes_of_its_palette_when_asked() -> None:
    indexes = np.array([[0, 1, 2], [20, 255, 0]], np.uint8)
    mask = Image.fromarray(indexes, "P")
    mask.putpalette([each for number in range(256) for each in (number * 7 % 256, number * 13 % 256, 255 - number)])
    np.testing.assert_array_equal(decoded(file_of(mask, "PNG"), channels=1, paletteIndexes=True)[:, :, 0], indexes)
    assert decoded(file_of(mask, "PNG"))[0, 1].tolist() == [7, 13, 254]


# --- orientation --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP", "TIFF"])
def test_an_image_is_turned_as_pillow_turns_it(kind: str, orientation: int) -> None:
    exif = Image.Exif()
    exif[0x0112] = orientation
    picture = drawn(20, 30)
    data = file_of(picture, kind, exif=exif, **(LOSSLESS.get(kind) or {"quality": 95, "subsampling": 0}))
    with Image.open(io.BytesIO(data)) as stored:
        upright = np.asarray(ImageOps.exif_transpose(stored).convert("RGB")).astype(int)
    tolerance = 2 if kind == "JPEG" else 0  # Pillow uses another libjpeg
    np.testing.assert_allclose(decoded(data).astype(int), upright, atol=tolerance)
    assert decoded(data).shape == ((30, 20, 3) if orientation >= 5 else (20, 30, 3))
    as_stored = decoded(data, applyOrientation=False)
    np.testing.assert_allclose(as_stored.astype(int), np.asarray(picture).astype(int), atol=40 if kind == "JPEG" else 0)


def test_an_orientation_of_motorolas_byte_order_is_found() -> None:
    block = b"MM\0*" + struct.pack(">IHHHIHHI", 8, 1, 0x0112, 3, 1, 6, 0, 0)
    segment = b"\xff\xe1" + struct.pack(">H", len(block) + 8) + b"Exif\0\0" + block
    data = file_of(drawn(20, 30))
    assert decoded(data[:2] + segment + data[2:]).shape == (30, 20, 3)


@pytest.mark.parametrize("block", [b"", b"II", b"II*\0\xff\xff\xff\x7f", b"MM\0*\0\0\0\x08\xff\xff", b"Exif\0\0"], ids=repr)
def test_a_broken_orientation_is_none(block: bytes) -> None:
    segment = b"\xff\xe1" + struct.pack(">H", len(block) + 8) + b"Exif\0\0" + block
    data = file_of(drawn(20, 30))
    assert decoded(data[:2] + segment + data[2:]).shape == (20, 30, 3)


# --- faults -------------------------------------------------------------------------------------------------------


def test_a_jpeg_cut_in_its_pixels_is_refused_though_it_has_an_end() -> None:
    data = file_of(drawn(200, 300))
    assert reason(data[: len(data) // 2] + b"\xff\xd9") == "damaged jpeg: Corrupt JPEG data: premature end of data segment"


def test_a_png_cut_in_its_pixels_is_refused() -> None:
    data = file_of(drawn(200, 300), "PNG")
    cut = data[: len(data) // 2] + data[-12:]
    assert reason(cut).startswith("damaged png: ")


def test_a_png_with_a_wrong_checksum_is_refused() -> None:
    data = bytearray(file_of(drawn(20, 30), "PNG"))
    data[data.index(b"IDAT") + 10] ^= 1
    assert reason(bytes(data)).startswith("damaged png: ")


@pytest.mark.parametrize("kind", ["GIF", "BMP", "TIFF", "WEBP"])
def test_a_cut_file_is_refused_by_its_format(kind: str) -> None:
    data = file_of(drawn(100, 150), kind)
    assert kind.lower() in reason(data[: len(data) // 2])


def test_a_file_that_is_no_image_is_refused() -> None:
    assert reason(b"hello, this is text") == "not an image: it begins with 68 65 6c 6c 6f 2c 20 74"


def huge_png(width: int, height: int) -> bytes:
    def chunk(kind: bytes, content: bytes) -> bytes:
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(bytes(1 << 20))) + chunk(b"IEND", b"")


def test_a_bomb_is_refused_by_its_header() -> None:
    assert reason(huge_png(20_000, 20_000)) == "the png image is 20,000 x 20,000 pixels, more than the 89,478,485 of decode.maxPixels"


def test_the_limit_is_an_option() -> None:
    data = file_of(drawn(20, 30))
    assert decoded(data, maxPixels=600).shape == (20, 30, 3)
    assert reason(data, maxPixels=599) == "the jpeg image is 30 x 20 pixels, more than the 599 of decode.maxPixels"


def every_mode() -> Iterator[tuple[str, bytes]]:
    """Yield files in each of Pillow's modes, some with a transparent colour."""
    picture = drawn(37, 29)
    alpha = picture.copy()
    alpha.putalpha(drawn(37, 29, mode="L", seed=1))
    depth = Image.fromarray((np.arange(37 * 29).reshape(37, 29) * 61 % 65_536).astype(np.uint16))
    palette = picture.convert("P", palette=Image.Palette.ADAPTIVE)
    for kind, mode in [("PNG", "1"), ("PNG", "L"), ("PNG", "LA"), ("PNG", "RGB"), ("PNG", "RGBA"), ("TIFF", "CMYK"), ("TIFF", "YCbCr")]:
        yield f"{kind} {mode}", file_of((alpha if mode in ("LA", "RGBA") else picture).convert(mode), kind)
    yield "GIF P", file_of(palette, "GIF", transparency=3)
    yield "PNG P", file_of(palette, "PNG", transparency=bytes(range(0, 256, 2)))
    yield "PNG L with a transparent grey", file_of(picture.convert("L"), "PNG", transparency=90)
    yield "PNG RGB with a transparent colour", file_of(picture, "PNG", transparency=picture.getpixel((5, 5)))
    yield "PNG 16 bits", file_of(depth, "PNG")
    turned = Image.Exif()
    turned[0x0112] = 6
    yield "TIFF turned", file_of(picture, "TIFF", exif=turned)


@pytest.mark.parametrize(("kind", "data"), [pytest.param(kind, data, id=kind) for kind, data in every_mode()])
def test_a_large_image_has_the_same_pixels_by_strips(kind: str, data: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    options: list[dict[str, Any]] = [{"channels": channels} for channels in (1, 3, 4)]
    if " P" in kind:
        options.append({"channels": 1, "paletteIndexes": True})
    whole = [decoded(data, **each) for each in options]
    monkeypatch.setattr(image_files, "_LARGE_PIXELS", 0)
    for pixels in (1, 29 * 5, 29 * 36, 29 * 99):
        monkeypatch.setattr(image_files, "_STRIP_PIXELS", pixels)
        for each, expected in zip(options, whole, strict=True):
            np.testing.assert_array_equal(decoded(data, **each), expected)


_PEAK = """
import re, sys
from pathlib import Path
from dataprep_api.spec.transforms.images import Decode
from dataprep_converter.images import image_files
for file in sys.argv[1:]:
    data = Path(file).read_bytes()
    image_files.decoded(data, image_files.header(data, Decode()), Decode())
    print(re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1])
"""


@pytest.mark.disk
@pytest.mark.slow
def test_a_large_image_takes_its_pixels_and_pillows_own(tmp_path: Path) -> None:
    for name, side in (("small", 64), ("large", 5000)):
        Image.new("RGB", (side, side)).save(tmp_path / name, "PNG")
    ran = subprocess.run([sys.executable, "-c", _PEAK, tmp_path / "small", tmp_path / "large"], capture_output=True, text=True, check=True)
    small, large = (int(line) * 1024 for line in ran.stdout.split())
    # Pillow needs four bytes per pixel, and we need three. Converting the complete image in one step took more than ten bytes per pixel.
    assert 3 < (large - small) / 5000**2 < 8.5


def test_a_large_image_below_the_limit_does_not_warn() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert reason(huge_png(10_000, 9_000), maxPixels=178_956_970).startswith("damaged png: ")


def test_a_jpeg_of_very_many_scans_is_refused() -> None:
    data = file_of(drawn(20, 30), progressive=True)
    scan = data.index(b"\xff\xda")
    assert reason(data[:-2] + data[scan : scan + 14] * 600 + data[-2:]) == "damaged jpeg: 610 scans, more than 500"


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "GIF", "BMP", "TIFF", "WEBP"])
def test_no_library_writes_to_stderr(kind: str, capfd: pytest.CaptureFixture[str]) -> None:
    data = file_of(drawn(60, 80), kind, **LOSSLESS.get(kind, {}))
    rng = np.random.default_rng(0)
    for _ in range(60):
        broken = bytearray(data)
        for at in rng.integers(0, len(data), 6):
            broken[at] = int(rng.integers(256))
        with contextlib.suppress(BadSample):
            decoded(bytes(broken))
    captured = capfd.readouterr()
    assert captured.err == captured.out == ""


@pytest.mark.slow
@settings(max_examples=examples(150), deadline=None)
@given(kind=st.sampled_from(["JPEG", "PNG", "GIF", "BMP", "TIFF", "WEBP"]), data=st.data())
def test_flipped_bytes_give_pixels_or_a_reason(kind: str, data: st.DataObject) -> None:
    content = bytearray(file_of(drawn(16, 24), kind))
    for at, value in data.draw(st.lists(st.tuples(st.integers(0, len(content) - 1), st.integers(0, 255)), min_size=1, max_size=8)):
        content[at] = value
    # A header is allowed to claim millions of pixels, but that isn't the subject of this test.
    with contextlib.suppress(BadSample):
        assert decoded(bytes(content), maxPixels=1_000_000).size


def test_a_missing_library_is_named_with_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "simplejpeg", None)
    with pytest.raises(BadSpec, match=r"The transform decode needs simplejpeg: pip install 'dataprep-operator\[images\]'\."):
        image_files.require_libraries("The transform decode")


# --- encoding -----------------------------------------------------------------------------------------------------


def test_a_png_keeps_its_pixels() -> None:
    for mode, channels in (("L", 1), ("RGB", 3), ("RGBA", 4)):
        image = np.asarray(drawn(20, 30, mode=mode)).reshape(20, 30, channels)
        data = image_files.encoded(image, Encode(format="Png"))
        with Image.open(io.BytesIO(data)) as stored:
            assert stored.mode == mode
            np.testing.assert_array_equal(np.asarray(stored).reshape(image.shape), image)


@pytest.mark.parametrize(("subsampling", "factors"), [("444", 0), ("422", 1), ("420", 2)])
def test_a_jpeg_has_the_quality_and_subsampling_asked_for(subsampling: Any, factors: int) -> None:
    image = np.asarray(drawn(120, 160))
    data = image_files.encoded(image, Encode(quality=75, subsampling=subsampling))
    with Image.open(io.BytesIO(data)) as stored:
        assert JpegImagePlugin.get_sampling(stored) == factors
        pillows = Image.open(io.BytesIO(file_of(drawn(120, 160), quality=75)))
        assert stored.quantization == pillows.quantization  # type: ignore[attr-defined]  # JPEG images have it
    assert len(data) < len(image_files.encoded(image, Encode(quality=95, subsampling=subsampling)))


def test_a_grey_jpeg_has_one_channel() -> None:
    data = image_files.encoded(np.asarray(drawn(20, 30, mode="L"))[:, :, None], Encode())
    with Image.open(io.BytesIO(data)) as stored:
        assert stored.mode == "L"
