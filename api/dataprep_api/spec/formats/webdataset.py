"""Options of the format `webdataset`."""

from typing import Annotated

from pydantic import Field

from dataprep_api.spec.model import Column, Model

FeatureName = Annotated[str, Field(max_length=256)]
Extension = Annotated[str, Field(min_length=1, max_length=64, pattern=r"^[a-z0-9]([-_.a-z0-9]*[a-z0-9])?$")]


class WebdatasetOptions(Model):
    """Options of the format `webdataset`: tar files, in which the members with the same key are a sample."""

    key: Column | None = None
    """Feature with the sample key. Text or whole numbers, unique in the shard; it is then no member. Default: the numbers of the shard and of the sample within it."""
    extensions: Annotated[dict[FeatureName, Extension], Field(max_length=256)] | None = None
    """Member extension by feature: `{image/encoded: jpg, caption: txt}`. It also decides how values are stored: as `npy`, as `json`, otherwise as text or unchanged."""
