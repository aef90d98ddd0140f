"""Jobs of specs as YAML has them."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dataprep_api.resources.job import DataPrepJob


def parse_job(spec: Mapping[str, Any], *, name: str = "x") -> DataPrepJob:
    """The job of a spec as YAML has it."""
    return DataPrepJob.parse({"apiVersion": "dataprep.io/v1alpha1", "kind": "DataPrepJob", "metadata": {"name": name}, "spec": spec})


def job_into(folder: Path, **spec: Any) -> DataPrepJob:
    """A job of these fields, with its output in a folder."""
    return parse_job(spec | {"output": spec.get("output", {}) | {"uri": str(folder)}}, name="interop")
