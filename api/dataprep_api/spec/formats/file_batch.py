"""Options of the format `fileBatch`."""

from typing import Literal

from dataprep_api.spec.model import Column, Model, Uri


class FileBatchOptions(Model):
    """Options of the format `fileBatch`: DL4J's zip of raw files and their URIs."""

    content: Column | None = None
    """Feature with the file bytes. Default: `image/encoded` or `content`, whichever exists."""
    uri: Column | None = None
    """Feature with the URIs. Text: URIs, or paths below `base`. Default: `image/filename` or `path`, whichever exists."""
    base: Uri | None = None
    """Base of the paths. A URI or an absolute path: `hdfs://nn/photos`, `/data/photos`. Default: paths stay relative."""
    compression: Literal["None", "Deflate"] = "None"
    """Compression in the zip. Photographs are compressed already."""
