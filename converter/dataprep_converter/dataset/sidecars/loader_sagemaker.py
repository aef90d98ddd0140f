"""`load_sagemaker.py`: prints the InputDataConfig of a training job for this data set.

For recordioProtobuf, the loader also reads the records.
"""

from string import Template
from typing import Final

from dataprep_api.formats import format_rules
from dataprep_converter.dataset.sidecars import FinishedDataSet, loader_source, sagemaker
from dataprep_converter.formats.registry import format_of

_LOADER: Final = Template('''\
"""Gives this data set to a SageMaker training job, when it lies on S3.

    python load_sagemaker.py s3://bucket/folder      prints the job's InputDataConfig
    python load_sagemaker.py [FOLDER]                counts the records of a local copy

In Python: boto3.client("sagemaker").create_training_job(InputDataConfig=input_data_config("s3://bucket/folder"), ...)
"""

import json
import sys
from pathlib import Path

FOLDER = Path(__file__).resolve().parents[2]
$splits$classes$channels

$files

def input_data_config(uri):
    """The channels of the data set at `uri`, a folder on S3."""
    if not uri.startswith("s3://"):
        raise ValueError(f"SageMaker reads its channels from s3://, got {uri}.")
    return [
        {
            "ChannelName": name,
            "ContentType": "$kind",
            "CompressionType": "$compression",
            "DataSource": {
                "S3DataSource": {
                    "S3DataType": "S3Prefix",
                    "S3Uri": f"{uri.rstrip('/')}/{beginning}",
                    "S3DataDistributionType": "FullyReplicated",
                }
            },
        }
        for name, beginning in CHANNELS.items()
    ]


$load
def main():
    """Prints the InputDataConfig for a folder on S3, else counts the records."""
    folder = sys.argv[1] if len(sys.argv) > 1 else FOLDER
    if "://" in str(folder):
        print(json.dumps(input_data_config(folder), indent=2))
        return
    for split, expected in SPLITS.items():
        $count


if __name__ == "__main__":
    main()
''')
_RECORDS: Final = '''\
def load(split, folder=FOLDER):
    """The split's records in their order, as Record messages; needs version 2 of the package sagemaker."""
    from sagemaker.amazon.record_pb2 import Record
    from sagemaker.serializer_utils import read_recordio

    for file in files(split, folder):
        with open(file, "rb") as shard:
            yield from map(Record.FromString, read_recordio(shard))

'''
_COUNTED: Final = 'print(f"{split}: {sum(1 for _ in load(split, folder))} of {expected} records")'
_LISTED: Final = 'print(f"{split}: {expected} records in {len(files(split, folder))} files")'


def text(finished: FinishedDataSet) -> str:
    """Returns the file. Raises Unreadable if SageMaker can't use the data set."""
    fault = sagemaker.fault(finished.manifest)
    if fault is not None:
        raise loader_source.Unreadable(fault)
    beginnings = {name: loader_source.quoted(beginning) for name, beginning in sagemaker.beginnings(finished.manifest).items()}
    has_records = format_rules(finished.manifest.format).is_for_sagemaker
    return loader_source.filled(
        _LOADER,
        splits=loader_source.splits(finished),
        classes=loader_source.classes(finished),
        channels=loader_source.dictionary("CHANNELS", beginnings, "How the names of each split's files begin."),
        files=loader_source.files_function("Python", "remote store"),
        kind=format_of(finished.manifest.format).media_type,
        compression=sagemaker.compression(finished.manifest),
        load=_RECORDS if has_records else "",
        count=_COUNTED if has_records else _LISTED,
    )
