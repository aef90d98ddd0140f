"""`source.masks`."""

from typing import Annotated, Literal, Self

from pydantic import ConfigDict, Field, model_validator

from dataprep_api.spec.model import Model, Uri, rule, rules
from dataprep_api.spec.sources.images import IMAGE_EXTENSIONS, Extensions

_PAIRS = "images and masks must have as many entries as each other"
_Suffix = Annotated[str, Field(max_length=64)]


class MasksSource(Model):
    """Images and their segmentation masks, themselves images of the same size.

    Columns: `image/encoded`, `image/format`, `image/height`, `image/width`, `image/segmentation/class/encoded` (the label),
    `image/segmentation/class/format`, and on request `image/filename`.
    """

    model_config = ConfigDict(
        json_schema_extra=rules(rule("size(self.images) == size(self.masks)", _PAIRS, path=".masks")),
    )

    images: Annotated[list[Uri], Field(min_length=1, max_length=64)]
    """Folders or globs of images, in order; within one, by name."""
    masks: Annotated[list[Uri], Field(min_length=1, max_length=64)]
    """One folder for each of `images`, perhaps the same: a mask has its image's relative path, but for suffix and extension."""
    image_suffix: _Suffix = ""
    """End of every image's name before its extension: `_leftImg8bit`."""
    mask_suffix: _Suffix = ""
    """End of every mask's name before its extension: `_mask` for a.jpg and a_mask.png."""
    extensions: Extensions = IMAGE_EXTENSIONS
    """Extensions of the images, in lower case; case is ignored. Other files are counted as ignored."""
    mask_extensions: Extensions = ["png"]
    """Extensions of the masks."""
    subset_from: Literal["FirstFolder", "Root", "None"] = "None"
    """What names the subset, for `splits`: the first folder below the URI (train/a/1.jpg), or the last part of the URI itself."""
    missing: Literal["Fail", "BadRecord", "Skip"] = "Fail"
    """An image without a mask, or the reverse, fails the job, is a bad record, or is left out with a warning."""

    def inputs(self) -> list[str]:
        """Every URI that is read."""
        return [*self.images, *self.masks]

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if len(self.images) != len(self.masks):
            raise ValueError(f"{_PAIRS}, got {len(self.images)} and {len(self.masks)}")
        return self
