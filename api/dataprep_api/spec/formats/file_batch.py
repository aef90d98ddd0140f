"""Options for the format `fileBatch`."""

from typing import Literal

from dataprep_api.spec.model import Column, Model, Uri


class FileBatchOptions(Model):
    """Options for `fileBatch`: DL4J's zip files with raw files and their URIs."""

    content: Column | None = None
    """Feature with the files' bytes. Default: `image/encoded` or `content`, whichever exists."""
    uri: Column | None = None
    """Feature with the files' URIs. The feature is text: URIs, or paths below `base`. Default: `image/filename` or `path`, whichever exists."""
    base: Uri | None = None
    """Base of relative paths. The base is a URI or an absolute path, such as `hdfs://nn/photos` or `/data/photos`. Default: paths stay relative."""
    compression: Literal["None", "Deflate"] = "None"
    """Compression of the zip's members. Photographs are usually compressed already."""
