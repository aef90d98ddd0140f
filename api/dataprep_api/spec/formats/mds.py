"""Options of the format `mds`."""

from typing import Annotated, Literal

from pydantic import Field

from dataprep_api.spec.model import Model

FeatureName = Annotated[str, Field(max_length=256)]


class MdsOptions(Model):
    """Options of the format `mds`: MosaicML Streaming's shards, with an index.json for each split."""

    encodings: Annotated[dict[FeatureName, Literal["bytes", "str", "jpeg", "png", "json"]], Field(max_length=256)] | None = None
    """Encodings of text or bytes features. `jpeg` and `png` are read as PIL images. Default: `str` for text, `jpeg` for features whose names end with `/encoded`, otherwise `bytes`."""
    compression: Literal["None", "Zstd", "Gzip"] = "None"
    """Shard compression. The library decompresses shards once it has fetched them."""
