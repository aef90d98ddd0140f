"""Builds jobs from specs that are given as parsed YAML."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dataprep_api.resources.job import DataPrepJob


def parse_job(spec: Mapping[str, Any], *, name: str = "x") -> DataPrepJob:
    """Return the job with this spec, which is given as parsed YAML."""
    return DataPrepJob.parse({"apiVersion": "dataprep.io/v1alpha1", "kind": "DataPrepJob", "metadata": {"name": name}, "spec": spec})


def job_into(folder: Path, **spec: Any) -> DataPrepJob:
    """Return a job with these fields, with its output in a folder."""
    return parse_job(spec | {"output": spec.get("output", {}) | {"uri": str(folder)}}, name="interop")
