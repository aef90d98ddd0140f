"""SageMaker: `_dataprep/input_data_config.json` is the `InputDataConfig` of a training job, with a channel for each split.

A channel identifies its shards by the common prefix of their keys. If dataprep copies the data set, it writes a new configuration for the
copy. `load_sagemaker.py` prints the same configuration for any other location.
"""

import json
import os.path
from dataclasses import dataclass
from typing import Final

from dataprep_api import names
from dataprep_api.dataset.report import Manifest
from dataprep_api.resources.status import Channels
from dataprep_converter.dataset.shard_table import plain_fields
from dataprep_converter.dataset.sidecars import Made, absolute
from dataprep_converter.formats.registry import FORMATS, format_of

FILE: Final = f"{names.SIDE}/input_data_config.json"
_LISTED_FIRST: Final = ("recordioProtobuf", "tfrecord", "csv", "jsonl", "parquet")
"""The order in which the message lists formats.

Don't change this order, because the message is part of data sets, whose bytes must stay the same.
"""


def place(uri: str, manifest: Manifest) -> Made:
    """Yields the file, or nothing if SageMaker can't use the data set. `fault` returns the reason."""
    channel_config = channels(uri, manifest)
    if channel_config is not None:
        yield FILE, json.dumps(channel_config.input_data_config(), indent=2).encode() + b"\n"


def channels(uri: str, manifest: Manifest) -> Channels | None:
    """Returns the channels of the data set in this folder, or None if SageMaker can't use the data set."""
    if fault(manifest) is not None:
        return None
    return Channels(
        content_type=format_of(manifest.format).media_type,
        compression_type=compression(manifest),
        prefixes={name: names.join(absolute(uri), beginning) for name, beginning in beginnings(manifest).items()},
    )


def fault(manifest: Manifest) -> str | None:
    """Returns the reason why SageMaker can't use the data set, or None if it can."""
    split_names = [split.name for split in manifest.splits]
    if not format_of(manifest.format).is_sagemaker_input:
        return f"SageMaker has no content type for {manifest.format}; it has some for {', '.join(_inputs())}."
    if "train" not in split_names:
        return f"SageMaker needs a channel named train, and the splits are {', '.join(split_names)}. Name one of spec.splits.into so."
    for name, beginning in beginnings(manifest).items():
        if not beginning:
            return f"SageMaker selects the files of a channel by the prefix of their names, and the files of {name} have no prefix of their own; begin output.fileName with {{split}}."
        other = file_of_other_split(manifest, name, beginning)
        if other is not None:
            return f"SageMaker selects the files of a channel by the prefix of their names, and {other} has the prefix of the files of {name}; begin output.fileName with {{split}}/."
    return None


def _inputs() -> list[str]:
    supported = [name for name, format_ in FORMATS.items() if format_.is_sagemaker_input]
    return [*_LISTED_FIRST, *(name for name in supported if name not in _LISTED_FIRST)]


def file_of_other_split(manifest: Manifest, name: str, beginning: str) -> str | None:
    """Returns the first file of a split other than `name` whose path begins with `beginning`. Returns None if there is none."""
    files = plain_fields(manifest.files, "file", "split")
    return next((file for file, split in files if split != name and file.startswith(beginning)), None)


def beginnings(manifest: Manifest) -> dict[str, str]:
    """Returns the common prefix of the file names of each split.

    If the split's files are in a separate folder, the prefix is the folder's name and a slash.
    """
    by_split = {split.name: _FileNames() for split in manifest.splits}
    for file, split in plain_fields(manifest.files, "file", "split"):
        by_split[split].add(file, folder=f"{split}/")
    return {split: found.beginning(folder=f"{split}/") for split, found in by_split.items()}


@dataclass
class _FileNames:
    """A split's file names, reduced to the alphabetically first and last. The prefix that these two share is common to all names."""

    count: int = 0
    first: str = ""
    last: str = ""
    are_in_folder: bool = True

    def add(self, file: str, *, folder: str) -> None:
        self.first = file if self.count == 0 or file < self.first else self.first
        self.last = max(self.last, file)
        self.are_in_folder = self.are_in_folder and file.startswith(folder)
        self.count += 1

    def beginning(self, *, folder: str) -> str:
        common = os.path.commonprefix([self.first, self.last])  # noqa: RUF071 - S3's prefixes end anywhere, too
        common = common if self.count == 1 else common.rstrip("0123456789") or common
        return folder if self.are_in_folder else common


def compression(manifest: Manifest) -> str:
    """Returns SageMaker's name for the compression."""
    return "Gzip" if manifest.compression == "gzip" else "None"
