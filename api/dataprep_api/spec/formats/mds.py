"""Options for the format `mds`."""

from typing import Annotated, Literal

from pydantic import Field

from dataprep_api.spec.model import Model

FeatureName = Annotated[str, Field(max_length=256)]


class MdsOptions(Model):
    """Options for `mds`: MosaicML Streaming's shards. Each split has an `index.json`."""

    encodings: Annotated[dict[FeatureName, Literal["bytes", "str", "jpeg", "png", "json"]], Field(max_length=256)] | None = None
    """Encodings of text or bytes features. The library reads `jpeg` and `png` as PIL images. Default: `str` for text, `jpeg` for features whose names end with `/encoded`, otherwise `bytes`."""
    compression: Literal["None", "Zstd", "Gzip"] = "None"
    """Compression of shards. The library decompresses a shard after fetching it."""
