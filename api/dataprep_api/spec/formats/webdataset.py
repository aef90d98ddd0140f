"""Options for the format `webdataset`."""

from typing import Annotated

from pydantic import Field

from dataprep_api.spec.model import Column, Model

FeatureName = Annotated[str, Field(max_length=256)]
Extension = Annotated[str, Field(min_length=1, max_length=64, pattern=r"^[a-z0-9]([-_.a-z0-9]*[a-z0-9])?$")]


class WebdatasetOptions(Model):
    """Options for `webdataset`: tar files, in which members with the same key form a sample."""

    key: Column | None = None
    """Feature with the sample key. Its values are text or whole numbers, and each value is unique in its shard. The feature is not stored as a member. Default: the key consists of the shard's number and the sample's number in the shard."""
    extensions: Annotated[dict[FeatureName, Extension], Field(max_length=256)] | None = None
    """Member extension by feature. Example: `{image/encoded: jpg, caption: txt}`. The extension also decides how numbers are stored: as a NumPy array for `npy`, as JSON for `json`, and otherwise as text. A single text or bytes value is stored unchanged."""
