"""SageMaker: `_dataprep/input_data_config.json`, the `InputDataConfig` of a training job, a channel for each split.

A channel's shards are named by a common beginning of their keys below the data set's URI. A copy by dataprep gets a file of its own;
`load_sagemaker.py` prints the same for any other place.
"""

import json
import os.path
from typing import Final

from dataprep_api import names
from dataprep_api.dataset.report import Manifest
from dataprep_api.resources.status import Channels
from dataprep_converter.dataset.sidecars import Made, absolute
from dataprep_converter.formats.registry import FORMATS, format_of

FILE: Final = f"{names.SIDE}/input_data_config.json"
_LISTED_FIRST: Final = ("recordioProtobuf", "tfrecord", "csv", "jsonl", "parquet")
"""The order in which the message lists formats. It stays: the message is part of data sets, whose bytes don't change."""


def place(uri: str, manifest: Manifest) -> Made:
    """Nothing when SageMaker could not use the data set: `fault` says why."""
    found = channels(uri, manifest)
    if found is not None:
        yield FILE, json.dumps(found.input_data_config(), indent=2).encode() + b"\n"


def channels(uri: str, manifest: Manifest) -> Channels | None:
    """The channels of the data set in this folder; None when SageMaker could not use it."""
    if fault(manifest) is not None:
        return None
    return Channels(
        content_type=format_of(manifest.format).media_type,
        compression_type=compression(manifest),
        prefixes={name: names.join(absolute(uri), beginning) for name, beginning in beginnings(manifest).items()},
    )


def fault(manifest: Manifest) -> str | None:
    """Why there can be no InputDataConfig, or None."""
    found = [split.name for split in manifest.splits]
    if not format_of(manifest.format).is_sagemaker_input:
        return f"SageMaker has no content type for {manifest.format}; it has some for {', '.join(_inputs())}."
    if "train" not in found:
        return f"SageMaker needs a channel named train, and the splits are {', '.join(found)}. Name one of spec.splits.into so."
    for name, beginning in beginnings(manifest).items():
        if not beginning:
            return f"SageMaker names the files of a channel by how they begin, and those of {name} have no beginning of their own; begin output.fileName with {{split}}."
        others = [file.file for file in manifest.files if file.split != name and file.file.startswith(beginning)]
        if others:
            return f"SageMaker names the files of a channel by how they begin, and {others[0]} begins as those of {name} do; begin output.fileName with {{split}}/."
    return None


def _inputs() -> list[str]:
    known = [name for name, format_ in FORMATS.items() if format_.is_sagemaker_input]
    return [*_LISTED_FIRST, *(name for name in known if name not in _LISTED_FIRST)]


def beginnings(manifest: Manifest) -> dict[str, str]:
    """What the names of each split's files have in common, from the left; of a folder its name and a slash."""
    found: dict[str, str] = {}
    for split in manifest.splits:
        files = [file.file for file in manifest.files if file.split == split.name]
        folder = f"{split.name}/"
        common = os.path.commonprefix(files)  # noqa: RUF071 - S3's prefixes end anywhere, too
        common = common if len(files) == 1 else common.rstrip("0123456789") or common
        found[split.name] = folder if all(file.startswith(folder) for file in files) else common
    return found


def compression(manifest: Manifest) -> str:
    """In SageMaker's words."""
    return "Gzip" if manifest.compression == "gzip" else "None"
