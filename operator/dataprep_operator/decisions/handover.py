"""Builds the handover ConfigMap, which has the job's name and describes the finished data set. All functions are pure.

A training Job can refer to this ConfigMap before the ConfigMap exists. The training Job's pods wait for the ConfigMap if they read it
through `envFrom` or mount it to read `dataset.json`.

ConfigMaps aren't watched, because a watch requires the permission to read all ConfigMaps. Instead, the operator checks each finished job's
ConfigMap, at intervals that grow with the time since the job finished.
"""

import json
import re
from datetime import datetime, timedelta
from typing import Any, Final

from dataprep_api import names
from dataprep_api.formats import COPY
from dataprep_api.reasons import ConditionType, Reason
from dataprep_api.resources.status import DataPrepJobStatus
from dataprep_api.spec import DataPrepJobSpec
from dataprep_operator.children.metadata import Body, owned_labels, owned_metadata
from dataprep_operator.decisions import conditions
from dataprep_operator.objects import times
from dataprep_operator.objects.observed import Observed

FIRST_LOOK_SECONDS: Final = 60.0
LAST_LOOK_SECONDS: Final = 3600.0
"""Age of a finished job after which only the resync checks its ConfigMap."""
FIRST_RETRY_SECONDS: Final = 10.0
LONGEST_RETRY_SECONDS: Final = 600.0

FILE: Final = "dataset.json"
CHANNELS: Final = "input_data_config.json"
_NOT_IN_A_VARIABLE: Final = re.compile(r"[^A-Z0-9]+")


def config_map(observed: Observed, spec: DataPrepJobSpec, status: DataPrepJobStatus) -> Body:
    """Return the immutable ConfigMap of a succeeded job."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": owned_metadata(observed, observed.key.name, labels=owned_labels(observed)),
        "immutable": True,
        "data": _variables(spec, status) | {FILE: _json(_document(spec, status))} | _channels(status),
    }


def with_condition(status: DataPrepJobStatus, fault: str | None, *, now: datetime, generation: int) -> DataPrepJobStatus:
    """Return the status with a condition that explains why the ConfigMap is missing. If there is no fault, the condition is removed."""
    if fault is None:
        others = conditions.without(status.conditions, ConditionType.HANDED_OVER)
        return status if others == status.conditions else status.model_copy(update={"conditions": others})
    message = f"The ConfigMap for training can't be created: {fault}"
    new_conditions = conditions.replace(
        status.conditions,
        ConditionType.HANDED_OVER,
        "False",
        reason=Reason.NOT_HANDED_OVER,
        message=message,
        now=now,
        generation=generation,
    )
    return status.model_copy(update={"conditions": new_conditions})


def next_check_at(status: DataPrepJobStatus, *, now: datetime) -> datetime | None:
    """Return when to check the ConfigMap next.

    The pause is as long as the time since the job finished or, if the ConfigMap was refused, since the first refusal.
    """
    refusal = conditions.find(status.conditions, ConditionType.HANDED_OVER)
    since = times.parse(refusal.last_transition_time if refusal is not None else status.completion_time)
    age = times.seconds_between(since, now)
    if age is None or (refusal is None and age >= LAST_LOOK_SECONDS):
        return None
    pause = max(FIRST_LOOK_SECONDS, age) if refusal is None else min(LONGEST_RETRY_SECONDS, max(FIRST_RETRY_SECONDS, age))
    return now + timedelta(seconds=pause)


def _variables(spec: DataPrepJobSpec, status: DataPrepJobStatus) -> dict[str, str]:
    output = status.output
    variables: dict[str, Any] = {
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
        variables[f"DATAPREP_RECORDS_{_variable(split.name)}"] = split.records
    variables |= {f"DATAPREP_FOLDER_{_variable(name)}": folder for name, folder in _folders(spec, status).items()}
    return {name: str(value) for name, value in variables.items() if value is not None}


def _document(spec: DataPrepJobSpec, status: DataPrepJobStatus) -> dict[str, Any]:  # Any, because this is JSON
    fields = status.model_dump(mode="json", by_alias=True, exclude_none=True, include={"run_id", "output", "splits", "labels", "outputs"})
    file_format, folders = _format(spec), _folders(spec, status)
    return {
        **({"format": file_format} if file_format else {}),
        **fields,
        **({"folders": folders} if folders else {}),
        "warnings": list(status.warnings),
    }


def _channels(status: DataPrepJobStatus) -> dict[str, str]:
    """Return a file with SageMaker's `InputDataConfig`, if SageMaker can read the data set."""
    channels = status.output.channels if status.output is not None else None
    return {CHANNELS: _json(channels.input_data_config())} if channels is not None else {}


def _folders(spec: DataPrepJobSpec, status: DataPrepJobStatus) -> dict[str, str]:
    """Map each split to the URI of a folder that holds only this split's files, for loaders that read all files of a folder."""
    output, has_several_splits = spec.output, len(status.splits) > 1
    if output.format == COPY or spec.script is not None:
        return {}
    folders = {
        split.name: names.split_folder(output.template, format_=output.format, split=split.name, several_splits=has_several_splits)
        for split in status.splits
    }
    folder_uris = {name: names.join(output.uri, folder) for name, folder in folders.items() if folder is not None}
    # If a data set was written by an older release and later extended, its older files may be outside of the splits' folders.
    stray_splits = {
        file.split for file in status.outputs if file.split in folder_uris and not file.uri.startswith(f"{folder_uris[file.split]}/")
    }
    return {name: folder for name, folder in folder_uris.items() if name not in stray_splits}


def _variable(name: str) -> str:
    return _NOT_IN_A_VARIABLE.sub("_", name.upper())


def _json(document: Any) -> str:  # Any, because this is JSON
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


def _format(spec: DataPrepJobSpec) -> str | None:
    """Return the format of the files. Return None for copied files, because only the manifest contains their format."""
    return spec.output.format if spec.output.format != COPY else None
