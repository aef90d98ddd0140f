"""The properties of output formats that affect the spec, the file names and the run id.

Encoders, decoders and everything else that only the converter needs are in `dataprep_converter/formats/registry.py`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

FormatName: TypeAlias = Literal[
    "tfrecord",
    "recordioProtobuf",
    "sequenceFile",
    "mapFile",
    "parquet",
    "arrow",
    "jsonl",
    "csv",
    "npz",
    "fileBatch",
    "dl4jDataset",
    "webdataset",
    "mds",
    "arrayRecord",
]
"""The format names, in the order in which the CRD lists them."""


@dataclass(frozen=True)
class SplitFile:
    """A visible file beside the shards of each split. The commit step writes the file because the format's reader opens it by name."""

    name: str
    extension: str
    """The extension of the shards.

    The extension is stored here, because a plan contains the extension of its shards but not their format.
    """


@dataclass(frozen=True)
class FormatRules:
    """The special properties of one format. A format without special properties keeps all defaults of this class."""

    file_name: str | None = None
    """The file name template that the format's users expect, if it isn't the default. If there are several splits, each gets a folder."""
    split_folder_name: str | None = None
    """A file name template that gives each split a folder, even if there is only one split.

    The template has been used since version 2 of the part `dl4jFolders`. DL4J's loaders read every file of a folder, even hidden files, so
    a split's folder must contain only data.
    """
    inner_file: str | None = None
    """The name of the file with the records in a shard's folder.

    Set only for formats in which each shard is a folder. Their file name templates name the folders.
    """
    split_file: SplitFile | None = None
    is_one_minibatch: bool = False
    """Whether a file can't be divided into records. With `granularity: Minibatch`, each such file is one minibatch."""
    is_for_sagemaker: bool = False
    """Whether SageMaker's built-in algorithms read the format.

    SageMaker needs a channel named `train`, IDX images as flat vectors, and libsvm data as one sparse tensor.
    """
    fills_tables: bool = False
    """Whether the format's records can also be uploaded as rows of a MaxCompute table."""


RULES: Final[Mapping[str, FormatRules]] = {
    "tfrecord": FormatRules(),
    "recordioProtobuf": FormatRules(is_for_sagemaker=True),
    "sequenceFile": FormatRules(file_name="part-r-{shard}"),
    "mapFile": FormatRules(file_name="part-r-{shard}", inner_file="data"),
    "parquet": FormatRules(),
    "arrow": FormatRules(fills_tables=True),
    "jsonl": FormatRules(),
    "csv": FormatRules(),
    "npz": FormatRules(is_one_minibatch=True),
    "fileBatch": FormatRules(split_folder_name="{split}/batch_{shard}.{ext}", is_one_minibatch=True),
    "dl4jDataset": FormatRules(file_name="dataset_{shard}.{ext}", split_folder_name="{split}/dataset_{shard}.{ext}", is_one_minibatch=True),
    "webdataset": FormatRules(file_name="{split}-{shard:06}.{ext}"),
    "mds": FormatRules(file_name="{split}/shard.{shard}.{ext}", split_file=SplitFile("index.json", extension="mds")),
    "arrayRecord": FormatRules(),
}
"""The rules of each format. Every format has an entry."""

COPY: Final = "copy"
"""The value of `output.format` for copying the files of a data set unchanged."""


def format_rules(name: str) -> FormatRules:
    """Return the rules of a format. For `copy`, every rule has its default value."""
    return RULES.get(name, FormatRules())


SAGEMAKER: Final = [name for name, rules in RULES.items() if rules.is_for_sagemaker]
TABLES: Final = [name for name, rules in RULES.items() if rules.fills_tables]
ONE_MINIBATCH: Final = [name for name, rules in RULES.items() if rules.is_one_minibatch]
