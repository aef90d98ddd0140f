"""SageMaker: `_dataprep/input_data_config.json`, the `InputDataConfig` of a training job, a channel for each split.

A channel's shards are named by a common beginning of their keys, after `{uri}`, which stands for the folder: so a copy of the folder, to
another bucket too, stays right. `load_sagemaker.py` fills it in.
"""

import json
import os.path
from collections.abc import Mapping
from typing import Any, Final

from dataprep_api import names
from dataprep_converter.metadata import Finished, Made

FILE: Final = f"{names.SIDE}/input_data_config.json"
CONTENT_TYPES: Final[Mapping[str, str]] = {
    "recordioProtobuf": "application/x-recordio-protobuf",
    "tfrecord": "application/x-tfrecord",
    "csv": "text/csv",
    "jsonl": "application/jsonlines",
    "parquet": "application/x-parquet",
}


def make(finished: Finished) -> Made:
    """Nothing when SageMaker could not use the data set: `fault` says why."""
    if fault(finished) is None:
        yield FILE, json.dumps(_channels(finished), indent=2).encode() + b"\n"


def fault(finished: Finished) -> str | None:
    """Why there can be no InputDataConfig, or None."""
    found = [split.name for split in finished.manifest.splits]
    if finished.manifest.format not in CONTENT_TYPES:
        return f"SageMaker has no content type for {finished.manifest.format}; it has some for {', '.join(CONTENT_TYPES)}."
    if "train" not in found:
        return f"SageMaker needs a channel named train, and the splits are {', '.join(found)}. Name one of spec.splits.into so."
    for name, beginning in beginnings(finished).items():
        if not beginning:
            return f"SageMaker names the files of a channel by how they begin, and those of {name} have no beginning of their own; begin output.fileName with {{split}}."
        others = [file.file for file in finished.manifest.files if file.split != name and file.file.startswith(beginning)]
        if others:
            return f"SageMaker names the files of a channel by how they begin, and {others[0]} begins as those of {name} do; begin output.fileName with {{split}}/."
    return None


def beginnings(finished: Finished) -> dict[str, str]:
    """What the names of each split's files have in common, from the left; of a folder its name and a slash."""
    found: dict[str, str] = {}
    for split in finished.manifest.splits:
        files = [file.file for file in finished.manifest.files if file.split == split.name]
        folder = f"{split.name}/"
        common = os.path.commonprefix(files)  # noqa: RUF071 - S3's prefixes end anywhere, too
        common = common if len(files) == 1 else common.rstrip("0123456789") or common
        found[split.name] = folder if all(file.startswith(folder) for file in files) else common
    return found


def compression(finished: Finished) -> str:
    """In SageMaker's words."""
    return "Gzip" if finished.manifest.compression == "gzip" else "None"


def _channels(finished: Finished) -> list[dict[str, Any]]:
    return [
        {
            "ChannelName": name,
            "ContentType": CONTENT_TYPES[finished.manifest.format],
            "CompressionType": compression(finished),
            "DataSource": {
                "S3DataSource": {
                    "S3DataType": "S3Prefix",
                    "S3Uri": f"{{uri}}/{beginning}",
                    "S3DataDistributionType": "FullyReplicated",
                }
            },
        }
        for name, beginning in beginnings(finished).items()
    ]
