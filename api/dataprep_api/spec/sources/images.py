"""`source.images`."""

from typing import Annotated, Literal

from pydantic import Field

from dataprep_api.spec.model import Model, Uri


class ImagesSource(Model):
    """Image files in folders; the parent folder is the class.

    Columns: `image/encoded` (the file's bytes), `image/format`, `image/height`, `image/width`, `image/class/label` (int64),
    `image/class/text`, and on request `image/filename`.
    """

    uris: Annotated[list[Uri], Field(min_length=1, max_length=64)]
    """Folders, in order. A sample's path is taken relative to its folder."""
    extensions: Annotated[list[Annotated[str, Field(pattern=r"^[a-z0-9]{1,8}$", max_length=8)]], Field(min_length=1, max_length=16)] = [
        "jpg", "jpeg", "png", "bmp", "gif", "tif", "tiff", "webp",
    ]  # fmt: skip
    """File extensions to take, in lower case; case is ignored. Other files are counted as ignored."""
    recursive: bool = True
    """Whether to look into sub-folders."""
    label_from: Literal["ParentFolder", "None"] = "ParentFolder"
    """Where the class comes from."""
    classes: Annotated[list[Annotated[str, Field(min_length=1, max_length=256)]], Field(min_length=1, max_length=4096)] | None = None
    """The classes in the order of their numbers. When absent: every folder name found, sorted by its UTF-8 bytes. A file of another class is an error."""
    subset_from: Literal["FirstFolder", "None"] = "None"
    """`FirstFolder`: the first folder below the root names the subset (train/cat/1.jpg), for `splits`."""

    def inputs(self) -> list[str]:
        """Every URI that is read."""
        return list(self.uris)
