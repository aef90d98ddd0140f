"""Transforms of images."""

from typing import Annotated, Final, Literal, Self

from pydantic import ConfigDict, Field, model_validator

from dataprep_api.spec.model import Column, Model, SplitName, rule, rules

Pixels = Annotated[int, Field(ge=1, le=65_500)]
"""Pixels of one side."""
MOST_PIXELS = 178_956_970
"""Of one image: twice the limit from which Pillow warns, and its own last word."""


class Decode(Model):
    """Image files to pixels: uint8[height, width, channels]. JPEG, PNG, BMP, GIF (the first frame), WebP and TIFF.

    The column `image/encoded` becomes `image`; any other keeps its name. `image/height` and `image/width` are updated, `image/format` is dropped.
    """

    model_config = ConfigDict(
        json_schema_extra=rules(
            rule(
                "!has(self.paletteIndexes) || !self.paletteIndexes || (has(self.channels) && self.channels == 1)",
                "paletteIndexes needs channels: 1",
                path=".paletteIndexes",
            ),
        ),
    )

    column: Column = "image/encoded"
    """Column of file bytes."""
    channels: Literal[1, 3, 4] = 3
    """1: grey, 3: RGB, 4: RGBA. With 3 an alpha channel is dropped; with 4 it is 255 where a file has none."""
    apply_orientation: bool = True
    """Whether to apply EXIF orientation. TensorFlow doesn't; and the boxes of annotations are not turned."""
    palette_indexes: bool = False
    """Whether to read palette indexes. An image with a palette gives its indexes instead of colours: for masks whose indexes are classes."""
    max_pixels: Annotated[int, Field(ge=1, le=MOST_PIXELS)] = 89_478_485
    """Pixels per image, at most. An image with more (height times width) is a bad record. The header is checked before anything is decoded."""

    @model_validator(mode="after")
    def _one_channel_of_indexes(self) -> Self:
        if self.palette_indexes and self.channels != 1:
            raise ValueError(f"paletteIndexes needs channels: 1, got {self.channels}")
        return self


class Resize(Model):
    """Resizes images: `height` and `width`, or `shortestSide`. Shrinking averages over all pixels (antialiasing)."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            rule(
                "has(self.shortestSide) ? !has(self.height) && !has(self.width) : has(self.height) && has(self.width)",
                "set either height and width, or shortestSide",
            ),
        ),
    )

    column: Column = "image"
    """Column of images."""
    height: Pixels | None = None
    """Exact height. Needs `width`; proportions are not kept."""
    width: Pixels | None = None
    """Exact width."""
    shortest_side: Pixels | None = None
    """Length of the shorter side. The longer side keeps the proportions, rounded down."""
    method: Literal["Bilinear", "Bicubic", "Area", "Nearest"] = "Bilinear"
    """Interpolation. `Bilinear` and `Bicubic` as in Pillow and as TensorFlow with `antialias=True`; `Area`: mean of the area covered, as in TensorFlow; `Nearest`: for masks."""
    fast: bool = False
    """Whether to shrink JPEGs while decoding. A JPEG more than twice as large is decoded at 1/2, 1/4 or 1/8 first. Much faster for large photographs; the pixels differ slightly."""

    @model_validator(mode="after")
    def _one_way(self) -> Self:
        exact = (self.height is not None, self.width is not None)
        if exact != ((False, False) if self.shortest_side is not None else (True, True)):
            raise ValueError("set either height and width, or shortestSide")
        return self


class CropOrPad(Model):
    """Crops or zero-pads around the centre. As `tf.image.resize_with_crop_or_pad`: an odd pixel goes to the bottom and to the right."""

    column: Column = "image"
    """Column of images."""
    height: Pixels
    """Height."""
    width: Pixels
    """Width."""


Numbers = Annotated[list[float], Field(min_length=1, max_length=64)]


_GIVEN_OR_COLLECTED: Final = "mean and deviation are given, or collected from a split, not both"


class Standardize(Model):
    """Mean 0 and deviation 1. Of each image by itself, as `tf.image.per_image_standardization`, or by a mean and deviation that are given or collected.

    By itself: (x - mean) / max(deviation, 1/√N) over the N numbers of the image; an image of one colour becomes zeros.
    """

    model_config = ConfigDict(
        json_schema_extra=rules(
            rule("has(self.mean) == has(self.deviation)", "mean and deviation go together"),
            rule("!has(self.split) || !has(self.mean)", _GIVEN_OR_COLLECTED, path=".split"),
            rule("!has(self.deviation) || self.deviation.all(d, d > 0.0)", "deviations must be above 0", path=".deviation"),
        ),
    )

    column: Column = "image"
    """Column of tensors."""
    mean: Numbers | None = None
    """Number(s) to subtract. One, or one per channel, on the scale of the values as they come (0 … 255 right after `decode`)."""
    deviation: Numbers | None = None
    """Number(s) to divide by. One, or one per channel."""
    split: SplitName | None = None
    """Split to collect statistics from. Planning collects mean and deviation of each channel; they apply to all splits."""
    dtype: Literal["float32", "float16"] = "float32"
    """Result type. Results are computed in wider numbers and rounded once."""

    @model_validator(mode="after")
    def _both_or_none(self) -> Self:
        if (self.mean is None) != (self.deviation is None):
            raise ValueError("mean and deviation go together")
        if self.split is not None and self.mean is not None:
            raise ValueError(_GIVEN_OR_COLLECTED)
        if any(not each > 0 for each in self.deviation or []):
            raise ValueError(f"deviations must be above 0, got {self.deviation}")
        return self


class Encode(Model):
    """Pixels to image files. The column `image` becomes `image/encoded`, and `image/format`, `image/height` and `image/width` are set."""

    column: Column = "image"
    """Column of images (uint8)."""
    format: Literal["Jpeg", "Png"] = "Jpeg"
    """`Png` is lossless."""
    quality: Annotated[int, Field(ge=1, le=100)] = 95
    """JPEG quality."""
    subsampling: Literal["444", "422", "420"] = "420"
    """JPEG chroma subsampling. `444`: full resolution. `420`: half in both directions."""
