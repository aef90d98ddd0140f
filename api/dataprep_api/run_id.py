"""The run id: equal for equal bytes. What doesn't change the bytes (name, workers, credentials, cleanup) is left out."""

from typing import Any, Final

from dataprep_api import canonical
from dataprep_api.spec import DataPrepJobSpec

ENCODING_VERSION: Final = 1
"""Raised only when the same spec and inputs give other bytes than before."""

_BYTES: Final = ("source", "script", "features", "labels", "transforms", "limit", "deduplicate", "splits", "shuffle", "on_bad_record")


def content(spec: DataPrepJobSpec) -> dict[str, Any]:
    """What of `spec` decides the bytes, after params, as JSON values.

    Fields at their defaults are left out, so that a release that adds fields leaves the ids of older jobs as they are. In return a default may
    change only together with ENCODING_VERSION.
    """
    whole = spec.model_dump(mode="json", by_alias=True, include=set(_BYTES) | {"output"}, exclude_defaults=True)
    output = whole.pop("output")
    if spec.output.template is not None:
        output["fileName"] = spec.output.template
    return whole | {"output": {key: value for key, value in output.items() if key not in ("uri", "overwrite", "hdfs")}}


def run_id(spec: DataPrepJobSpec, *, inputs_sha256: str) -> str:
    """16 hex digits: the spec's content, the pinned inputs and the encoding version."""
    return canonical.sha256({"content": content(spec), "inputs": inputs_sha256, "encoding": ENCODING_VERSION})[:16]
