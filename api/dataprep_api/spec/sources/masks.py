"""`source.masks`."""

from typing import Annotated, Literal, Self

from pydantic import ConfigDict, Field, model_validator

from dataprep_api.spec.model import Model, Uri, rule, rules
from dataprep_api.spec.sources.images import IMAGE_EXTENSIONS, Extensions

_PAIRS = "images and masks must have the same number of entries"
_Suffix = Annotated[str, Field(max_length=64)]


class MasksSource(Model):
    """Images and segmentation masks. A mask has the same size as its image.

    Columns: `image/encoded`, `image/format`, `image/height`, `image/width`, `image/segmentation/class/encoded` (the label),
    `image/segmentation/class/format`, and `image/filename` if a feature uses it.
    """

    model_config = ConfigDict(
        json_schema_extra=rules(rule("size(self.images) == size(self.masks)", _PAIRS, path=".masks")),
    )

    images: Annotated[list[Uri], Field(min_length=1, max_length=64)]
    """Folders or globs. The entries are read in the order of this list. The images of one entry are sorted by name."""
    masks: Annotated[list[Uri], Field(min_length=1, max_length=64)]
    """Folders of masks, one per entry of `images`. Images and masks may be in the same folder. A mask has the same relative path as its image, except for the suffix and the extension."""
    image_suffix: _Suffix = ""
    """Suffix of image names. Example: `_leftImg8bit`. The suffix comes before the extension."""
    mask_suffix: _Suffix = ""
    """Suffix of mask names. The suffix comes before the extension. With `_mask`, the mask of a.jpg is a_mask.png."""
    extensions: Extensions = IMAGE_EXTENSIONS
    """Image extensions. Write them in lower case. The case of files' extensions is ignored. Files with other extensions are ignored and counted."""
    mask_extensions: Extensions = ["png"]
    """Mask extensions. Write them in lower case."""
    subset_from: Literal["FirstFolder", "Root", "None"] = "None"
    """Source of subset names. Splits can choose samples by subset. `FirstFolder`: the first folder below the URI, such as `train` in train/a/1.jpg. `Root`: the last part of the URI itself."""
    missing: Literal["Fail", "BadRecord", "Skip"] = "Fail"
    """What happens to files without a partner. These files are images without a mask, and masks without an image. `Fail`: the job fails. `BadRecord`: the record is bad. `Skip`: the file is left out with a warning."""

    def inputs(self) -> list[str]:
        """Return every URI that is read."""
        return [*self.images, *self.masks]

    @model_validator(mode="after")
    def _check_pairs(self) -> Self:
        if len(self.images) != len(self.masks):
            raise ValueError(f"{_PAIRS}, got {len(self.images)} and {len(self.masks)}")
        return self
