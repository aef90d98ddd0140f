"""Builds the job that converts a finished data set to another format: an ordinary job with `source.dataset`."""

from typing import Any

from dataprep_api import API_VERSION, KIND
from dataprep_api.dataset.report import Manifest


def job_of(manifest: Manifest, *, source: str, output: str, format_: str) -> dict[str, Any]:
    """Returns a DataPrepJob document with the same features, labels and splits in the same order.

    The document contains the source data set's digest.
    """
    columns = [(feature["name"], feature["label"]) for feature in sorted(manifest.features, key=lambda each: int(each.get("place", 0)))]
    spec: dict[str, Any] = {
        "source": {"dataset": {"uri": source, "digest": manifest.digest}},
        "features": [{"name": name} for name, is_label in columns if not is_label],
        "labels": [{"name": name} for name, is_label in columns if is_label],
        "splits": {"into": [{"name": split.name, "subset": split.name} for split in manifest.splits if split.records]},
        "output": {"uri": output, "format": format_},
        "allowEmpty": True,
    }
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "metadata": {"name": "convert"},
        "spec": {field: value for field, value in spec.items() if value not in ([], {"into": []})},
    }
