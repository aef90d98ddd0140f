"""The formats, as far as the spec, the names of files and the run id depend on them.

Encoders, decoders and what only the converter needs are in its own table, `dataprep_converter/formats/registry.py`.
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
"""In the order in which the CRD lists them."""


@dataclass(frozen=True)
class SplitFile:
    """A visible file beside the shards of each split, which the commit step writes because the format's reader asks for it by name."""

    name: str
    extension: str
    """Of the shards: a plan says their extension, not their format."""


@dataclass(frozen=True)
class FormatRules:
    """What is particular to one format; a plain format leaves all of it at the defaults."""

    file_name: str | None = None
    """A template that the format's users expect instead of ours; in a folder for each split where there are several."""
    split_folder_name: str | None = None
    """A template with a folder for each split, even for a single one, since version 2 of the part `dl4jFolders`: DL4J's loaders take every file
    of a folder, hidden ones too, so a split's folder holds data alone."""
    inner_file: str | None = None
    """Where each shard is a folder: the file in it that has the records. The template names the folder."""
    split_file: SplitFile | None = None
    is_one_minibatch: bool = False
    """Whether a file has no records of its own: with minibatches each file is one."""
    is_for_sagemaker: bool = False
    """Whether SageMaker's own algorithms read it. They need a channel `train`, images of IDX as flat vectors, and libsvm as one sparse tensor."""
    fills_tables: bool = False
    """Whether its records may also become the rows of a MaxCompute table."""


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
"""Format → rules. Every format has an entry."""

COPY: Final = "copy"
"""Takes the place of a format where the files of a data set are copied as they are."""


def format_rules(name: str) -> FormatRules:
    """The rules of a format. `copy` has none of its own."""
    return RULES.get(name, FormatRules())


SAGEMAKER: Final = [name for name, rules in RULES.items() if rules.is_for_sagemaker]
TABLES: Final = [name for name, rules in RULES.items() if rules.fills_tables]
ONE_MINIBATCH: Final = [name for name, rules in RULES.items() if rules.is_one_minibatch]
