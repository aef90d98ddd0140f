"""The stored data sets, and functions that run jobs and tools on them."""

from collections.abc import Callable
from pathlib import Path

from dataprep_api.resources.job import DataPrepJob
from dataprep_converter.inputs import job_file

Unpack = Callable[[str], Path]


def job_of(folder: Path) -> DataPrepJob:
    return job_file.load(str(folder / "job.yaml"))


def visible(folder: Path) -> dict[str, bytes]:
    files = [file for file in sorted(folder.rglob("*")) if file.is_file()]
    names = {file: file.relative_to(folder) for file in files}
    return {str(names[file]): file.read_bytes() for file in files if not any(part[0] in "_." for part in names[file].parts)}
