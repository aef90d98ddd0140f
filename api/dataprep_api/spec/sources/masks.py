"""`source.masks`."""

from typing import Annotated, Literal, Self

from pydantic import ConfigDict, Field, model_validator

from dataprep_api.spec.model import Model, Uri, rule, rules
from dataprep_api.spec.sources.images import IMAGE_EXTENSIONS, Extensions

_PAIRS = "images and masks must have as many entries as each other"
_Suffix = Annotated[str, Field(max_length=64)]


class MasksSource(Model):
    """Images and segmentation masks. Masks are images of the same size.

    Columns: `image/encoded`, `image/format`, `image/height`, `image/width`, `image/segmentation/class/encoded` (the label),
    `image/segmentation/class/format`, and on request `image/filename`.
    """

    model_config = ConfigDict(
        json_schema_extra=rules(rule("size(self.images) == size(self.masks)", _PAIRS, path=".masks")),
    )

    images: Annotated[list[Uri], Field(min_length=1, max_length=64)]
    """Folders or globs, in order. Within one, images come by name."""
    masks: Annotated[list[Uri], Field(min_length=1, max_length=64)]
    """One folder per entry of `images`. It may be the same folder. A mask has the relative path of its image, apart from suffix and extension."""
    image_suffix: _Suffix = ""
    """End of image names: `_leftImg8bit`. It comes before the extension."""
    mask_suffix: _Suffix = ""
    """End of mask names: `_mask`. It comes before the extension: a.jpg and a_mask.png."""
    extensions: Extensions = IMAGE_EXTENSIONS
    """Image extensions, in lower case. Case is ignored. Files with other extensions are ignored and counted."""
    mask_extensions: Extensions = ["png"]
    """Mask extensions."""
    subset_from: Literal["FirstFolder", "Root", "None"] = "None"
    """What names the subset, for `splits`. `FirstFolder`: the first folder below the URI (train/a/1.jpg). `Root`: the last part of the URI itself."""
    missing: Literal["Fail", "BadRecord", "Skip"] = "Fail"
    """Images without a mask, or the reverse. The job fails, the record is bad, or the file is left out with a warning."""

    def inputs(self) -> list[str]:
        """Every URI that is read."""
        return [*self.images, *self.masks]

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if len(self.images) != len(self.masks):
            raise ValueError(f"{_PAIRS}, got {len(self.images)} and {len(self.masks)}")
        return self
