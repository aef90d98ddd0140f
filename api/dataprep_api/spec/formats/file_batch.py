"""Options of the format `fileBatch`."""

from typing import Literal

from dataprep_api.spec.model import Column, Model, Uri


class FileBatchOptions(Model):
    """Options of the format `fileBatch`: DL4J's zip of raw files and their URIs."""

    content: Column | None = None
    """Feature with the files' bytes. Default: `image/encoded` or `content`, whichever there is."""
    uri: Column | None = None
    """Feature of text with the files' URIs, or their paths below `base`. Default: `image/filename` or `path`, whichever there is."""
    base: Uri | None = None
    """What stands before paths, as a URI or a path from the root: `hdfs://nn/photos`, `/data/photos`. Default: paths stay relative."""
    compression: Literal["None", "Deflate"] = "None"
    """Of the files in the zip; photographs are compressed already."""
