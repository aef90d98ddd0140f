"""The hand-over: a ConfigMap with the job's name that says where the finished data set is and what it holds. Pure.

A training Job can name it before it exists: `envFrom` waits for it, and a volume of it holds `dataset.json`.
"""

import json
import re
from typing import Any, Final

from dataprep_api.spec import DataPrepJobSpec
from dataprep_api.status import DataPrepJobStatus
from dataprep_operator.children import Body, owned_labels, owned_metadata
from dataprep_operator.observed import Observed

FILE: Final = "dataset.json"
_NOT_IN_A_VARIABLE: Final = re.compile(r"[^A-Z0-9]+")


def config_map(seen: Observed, spec: DataPrepJobSpec, status: DataPrepJobStatus) -> Body:
    """The ConfigMap of a job that has succeeded; immutable, like the data set."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": owned_metadata(seen, seen.key.name, labels=owned_labels(seen)),
        "immutable": True,
        "data": _variables(spec, status) | {FILE: json.dumps(_document(spec, status), indent=2, ensure_ascii=False) + "\n"},
    }


def _variables(spec: DataPrepJobSpec, status: DataPrepJobStatus) -> dict[str, str]:
    output = status.output
    found: dict[str, Any] = {
        "DATAPREP_OUTPUT_URI": spec.output.uri,
        "DATAPREP_FORMAT": _format(spec),
        "DATAPREP_RUN_ID": status.run_id,
        "DATAPREP_MANIFEST_URI": output and output.manifest_uri,
        "DATAPREP_MANIFEST_SHA256": output and output.manifest_sha256,
        "DATAPREP_FILES": output and output.files,
        "DATAPREP_RECORDS": output and output.records,
        "DATAPREP_SPLITS": ",".join(split.name for split in status.splits),
    }
    for split in status.splits:
        found[f"DATAPREP_RECORDS_{_NOT_IN_A_VARIABLE.sub('_', split.name.upper())}"] = split.records
    return {name: str(value) for name, value in found.items() if value is not None}


def _document(spec: DataPrepJobSpec, status: DataPrepJobStatus) -> dict[str, Any]:  # Any: JSON
    told = status.model_dump(mode="json", by_alias=True, exclude_none=True, include={"run_id", "output", "splits", "labels", "outputs"})
    named = _format(spec)
    return {**({"format": named} if named else {}), **told, "warnings": list(status.warnings)}


def _format(spec: DataPrepJobSpec) -> str | None:
    """Of the files. Only the manifest knows it of a copy."""
    return spec.output.format if spec.output.format != "copy" else None
