"""Jobs that convert the MNIST digits, and their results."""

import hashlib
from pathlib import Path
from typing import Any

from tests.builders.jobs import run_job

from dataprep_api.dataset.messages import CommitResult
from dataprep_api.resources.job import DataPrepJob
from dataprep_converter.cli.convert_to_records import mnist_job


def digits_job(source: Path, folder: Path, *, validation: int = 100, **spec: Any) -> DataPrepJob:
    """Return a job that converts the digits in a folder, with these fields of the spec replaced."""
    document = mnist_job(source=str(source), output=str(folder), validation=validation, suffix=".gz").model_dump(
        by_alias=True, exclude_none=True
    )
    for field, value in spec.items():
        document["spec"][field] = document["spec"].get(field, {}) | value if isinstance(value, dict) else value
    return DataPrepJob.parse(document)


def commit_result(job: DataPrepJob, *, workers: int = 1) -> CommitResult:
    """Run a job and return the result of its commit step."""
    return run_job(job, workers=workers)[1]


def sha256s(folder: Path, pattern: str = "*.tfrecords") -> dict[str, str]:
    """Return the SHA-256 of every shard, by file name."""
    return {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in sorted(folder.glob(pattern))}


EIGHT = {"shards": {"count": 8}, "fileName": "{split}-{shard}-of-{shards}.{ext}"}
