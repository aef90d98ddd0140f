"""Transforms of images."""

from typing import Annotated, Final, Literal, Self

from pydantic import ConfigDict, Field, model_validator

from dataprep_api.spec.model import Column, Model, SplitName, rule, rules

Pixels = Annotated[int, Field(ge=1, le=65_500)]
"""The length of one side in pixels."""
MOST_PIXELS = 178_956_970
"""The maximum number of pixels per image. This maximum is twice Pillow's warning limit, and Pillow refuses larger images."""


class Decode(Model):
    """Decodes image files to pixels. The result is uint8[height, width, channels]. The files are JPEG, PNG, BMP, GIF (the first frame), WebP, TIFF, AVIF or HEIC.

    The column `image/encoded` is renamed to `image`. Any other column keeps its name. `image/height` and `image/width` are updated, and
    `image/format` is dropped.
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
    """Number of channels. 1 is grey, 3 is RGB and 4 is RGBA. With 3, an alpha channel is dropped. With 4, alpha is 255 for images without an alpha channel."""
    apply_orientation: bool = True
    """Whether to apply EXIF orientation. TensorFlow doesn't apply this orientation, and the boxes of annotations are not rotated."""
    palette_indexes: bool = False
    """Whether to read palette indexes. If true, images with a palette are decoded to palette indexes instead of colours. Use this for masks whose palette indexes are class numbers."""
    max_pixels: Annotated[int, Field(ge=1, le=MOST_PIXELS)] = 89_478_485
    """Maximum number of pixels per image. A record is bad if its image has more pixels (height times width) than this. The header is checked before the image is decoded."""

    @model_validator(mode="after")
    def _check_palette_channels(self) -> Self:
        if self.palette_indexes and self.channels != 1:
            raise ValueError(f"paletteIndexes needs channels: 1, got {self.channels}")
        return self


class Resize(Model):
    """Resizes images. Set `height` and `width`, or `shortestSide`. Images are shrunk with antialiasing."""

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
    """Exact height. It needs `width`. Proportions are not kept."""
    width: Pixels | None = None
    """Exact width."""
    shortest_side: Pixels | None = None
    """Length of the shorter side. The longer side is computed from the image's proportions and rounded down."""
    method: Literal["Bilinear", "Bicubic", "Area", "Nearest"] = "Bilinear"
    """Interpolation method. `Bilinear` and `Bicubic` work as in Pillow, and as in TensorFlow with `antialias=True`. `Area` takes the mean of the covered area, as in TensorFlow. `Nearest` is for masks."""
    fast: bool = False
    """Whether to shrink JPEGs while decoding. A JPEG more than twice as large as needed is decoded at 1/2, 1/4 or 1/8 of its size. Shrinking while decoding is much faster for large photographs, but the pixels differ slightly."""

    @model_validator(mode="after")
    def _check_size(self) -> Self:
        exact = (self.height is not None, self.width is not None)
        if exact != ((False, False) if self.shortest_side is not None else (True, True)):
            raise ValueError("set either height and width, or shortestSide")
        return self


class CropOrPad(Model):
    """Crops or zero-pads around the centre. The transform works as `tf.image.resize_with_crop_or_pad` does: an odd pixel goes to the bottom or to the right."""

    column: Column = "image"
    """Column of images."""
    height: Pixels
    """Height in pixels."""
    width: Pixels
    """Width in pixels."""


Numbers = Annotated[list[float], Field(min_length=1, max_length=64)]


_GIVEN_OR_COLLECTED: Final = "set either split, or mean and deviation, not both"


class Standardize(Model):
    """Scales images to mean 0 and deviation 1. By default, each image uses its own mean and deviation, as in
    `tf.image.per_image_standardization`. With `mean` and `deviation`, all images use the values that you set. With `split`, all images use
    the values that planning collects from this split.

    By default, x becomes (x - mean) / max(deviation, 1/√N) in an image of N numbers. A uniform image becomes zeros.
    """

    model_config = ConfigDict(
        json_schema_extra=rules(
            rule("has(self.mean) == has(self.deviation)", "mean and deviation must be set together"),
            rule("!has(self.split) || !has(self.mean)", _GIVEN_OR_COLLECTED, path=".split"),
            rule("!has(self.deviation) || self.deviation.all(d, d > 0.0)", "deviations must be above 0", path=".deviation"),
        ),
    )

    column: Column = "image"
    """Column of tensors."""
    mean: Numbers | None = None
    """Numbers to subtract. Give one number, or one per channel. The numbers are on the scale of the input values (0 … 255 right after `decode`)."""
    deviation: Numbers | None = None
    """Numbers to divide by. Give one number, or one per channel."""
    split: SplitName | None = None
    """Split to collect statistics from. Planning collects the mean and deviation of each channel in this split, and they apply to all splits."""
    dtype: Literal["float32", "float16"] = "float32"
    """Type of the results. Results are computed with higher precision and rounded once."""

    @model_validator(mode="after")
    def _check_statistics(self) -> Self:
        if (self.mean is None) != (self.deviation is None):
            raise ValueError("mean and deviation must be set together")
        if self.split is not None and self.mean is not None:
            raise ValueError(_GIVEN_OR_COLLECTED)
        if any(not deviation > 0 for deviation in self.deviation or []):
            raise ValueError(f"deviations must be above 0, got {self.deviation}")
        return self


class Encode(Model):
    """Encodes pixels to image files. The column `image` becomes `image/encoded`, and `image/format`, `image/height` and `image/width` are set."""

    column: Column = "image"
    """Column of images (uint8)."""
    format: Literal["Jpeg", "Png"] = "Jpeg"
    """Image format. `Png` is lossless."""
    quality: Annotated[int, Field(ge=1, le=100)] = 95
    """JPEG quality."""
    subsampling: Literal["444", "422", "420"] = "420"
    """JPEG chroma subsampling. `444` has full resolution. `420` has half the resolution in both directions."""
