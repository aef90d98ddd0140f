"""Options of the format `webdataset`."""

from typing import Annotated

from pydantic import Field

from dataprep_api.spec.model import Column, Model

FeatureName = Annotated[str, Field(max_length=256)]
Extension = Annotated[str, Field(min_length=1, max_length=64, pattern=r"^[a-z0-9]([-_.a-z0-9]*[a-z0-9])?$")]


class WebdatasetOptions(Model):
    """Options of the format `webdataset`: tar files, in which the members with the same key are a sample."""

    key: Column | None = None
    """Feature of text or whole numbers that has each sample's key, which must be unique in its shard; it is no member then. Default: the shard's number and the sample's within it."""
    extensions: Annotated[dict[FeatureName, Extension], Field(max_length=256)] | None = None
    """Extension of a feature's members: `{image/encoded: jpg, caption: txt}`. It also says how values are stored: `npy`, `json`, else as text or as they are."""
