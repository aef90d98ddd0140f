"""Loads a job's YAML file and applies overrides from the command line."""

import logging
import os
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import yaml

from dataprep_api import API_VERSION, CRON_KIND, KIND, PROFILE_KIND
from dataprep_api.errors import Fault, SpecError
from dataprep_api.resources.cron import DataPrepCronJob, job_document
from dataprep_api.resources.job import DataPrepJob
from dataprep_api.resources.profile import DEFAULT, DataPrepProfile, with_defaults

logger = logging.getLogger(__name__)


def load(file: str, *, overrides: Sequence[str] = (), profile: str | None = None, new: bool = False) -> DataPrepJob:
    """Loads the DataPrepJob in `file` (`-` is standard input).

    Fields that the job omits are taken from the DataPrepProfile in the file `profile`. With `new`, the rules apply that stored jobs may
    break (see `DataPrepJob.parse`). Raises SpecError if a file can't be read or has faults.
    """
    documents = _documents(file)
    document = _job(documents, file)
    for override in overrides:
        set_field(document, override)
    if profile is not None and isinstance(document, dict) and isinstance(document.get("spec"), dict):
        document = document | {"spec": _with_profile(document["spec"], profile)}
    job = DataPrepJob.parse(document, new=new)
    for name in unused_params(document, overrides):
        logger.warning("--set params.%s has no effect: the job doesn't contain ${%s}", name, name)
    if job.spec.code is not None and job.spec.code.config_map_ref is not None:
        from dataprep_converter.runtime import plugins  # not at the top, because it imports Arrow, which is slow

        if not os.environ.get(plugins.CODE_VARIABLE):
            plugins.provide(_config_map(documents, job.spec.code.config_map_ref.name))
    return job


def _with_profile(spec: dict[str, Any], file: str) -> dict[str, Any]:
    """Returns the spec, completed with the values of a profile. Any: YAML.

    If the file has several profiles, the profile that the job names is used, or else the profile called `default`.
    """
    profiles = [document for document in _documents(file) if isinstance(document, dict) and document.get("kind") == PROFILE_KIND]
    name = spec.get("profile")
    matching = [document for document in profiles if (document.get("metadata") or {}).get("name") == (name or DEFAULT)]
    if not matching and name is None and len(profiles) == 1:
        matching = profiles
    if not matching:
        raise SpecError([Fault("spec.profile", f"{file} has no {PROFILE_KIND} {name or DEFAULT}")])
    profile = DataPrepProfile.parse(matching[0])
    defaults = profile.spec.model_dump(mode="json", by_alias=True, exclude_none=True, exclude_unset=True)
    return with_defaults(spec, defaults, name=profile.metadata.name)


def _config_map(documents: Sequence[Any], name: str) -> dict[str, str]:
    """Returns the data of a ConfigMap in the job's file, or an empty dict if there is none. A missing module is reported later."""
    for document in documents:
        if isinstance(document, dict) and document.get("kind") == "ConfigMap" and document.get("metadata", {}).get("name") == name:
            return {str(key): str(value) for key, value in (document.get("data") or {}).items()}
    return {}


def _documents(file: str) -> list[Any]:
    """Returns the file's YAML documents. Any: YAML."""
    try:
        text = sys.stdin.read() if file == "-" else Path(file).read_text(encoding="utf-8")
        return [document for document in yaml.safe_load_all(text) if document is not None]
    except (OSError, UnicodeDecodeError) as exc:
        raise SpecError([Fault("", f"can't read {file}: {exc.strerror if isinstance(exc, OSError) else exc}")]) from exc
    except RecursionError as exc:
        raise SpecError([Fault("", f"{file} is nested more deeply than a job can be")]) from exc
    except (yaml.YAMLError, ValueError) as exc:  # ValueError: an invalid date
        raise SpecError([Fault("", f"{file} is not YAML: {_one_line(exc)}")]) from exc


def _one_line(error: Exception) -> str:
    """Describes a YAML error in one line of text that includes the line and column of the error."""
    if isinstance(error, yaml.MarkedYAMLError) and error.problem_mark is not None:
        mark, began = error.problem_mark, error.context_mark
        context = f" {error.context}" if error.context else ""
        since = f" that begins in line {began.line + 1}" if context and began is not None and began.line != mark.line else ""
        return f"line {mark.line + 1}, column {mark.column + 1}: {error.problem}{context}{since}"
    return " ".join(str(error).split())


def _job(documents: list[Any], file: str) -> Any:
    """Returns the only DataPrepJob among the documents or, for a DataPrepCronJob, the job that it would create now."""
    jobs = [document for document in documents if isinstance(document, dict) and document.get("kind") in (KIND, CRON_KIND)]
    if len(jobs) == 1 and jobs[0]["kind"] == CRON_KIND:
        DataPrepCronJob.parse(jobs[0])
        return job_document(jobs[0], scheduled=datetime.now(UTC))
    if len(jobs) == 1:
        return jobs[0]
    if len(documents) == 1 and isinstance(documents[0], dict):
        return documents[0]
    if len(documents) == 1:
        raise SpecError(
            [Fault("", f"{file}: expected a mapping with apiVersion, kind, metadata and spec, got {type(documents[0]).__name__}")]
        )
    raise SpecError(
        [Fault("", f"{file} must contain exactly one {KIND} of {API_VERSION}, but contains {len(jobs)} in {len(documents)} documents")]
    )


def set_field(document: Any, override: str) -> None:
    """Applies an override such as `output.shards.count=8`, relative to `spec`.

    The value is parsed as YAML. Values of params are always text; so are values that aren't valid YAML.
    """
    path, equals, value = override.partition("=")
    parts = path.removeprefix("spec.").split(".")
    if not equals or not all(parts):
        raise SpecError([Fault("--set", f"expected FIELD=VALUE, got {override!r}")])
    if not isinstance(document, dict) or not isinstance(document.setdefault("spec", {}), dict):
        raise SpecError([Fault("spec", "expected a mapping")])
    is_param = parts[0] == "params" and len(parts) > 1
    parent: Any = document["spec"]
    for part in parts[:-1]:
        key = _key(parent, part, path)
        # A field without a value (`shards:`) is None in YAML.
        if isinstance(parent, dict) and parent.get(key) is None:
            parent[key] = {}
        parent = parent[key]
    parent[_key(parent, parts[-1], path)] = value if is_param else _value(value)


def unused_params(document: Any, overrides: Sequence[str]) -> list[str]:
    """Returns the params that the overrides set but the job doesn't use; their names are mostly typos. The job may be any parsed YAML."""
    params = [
        override.partition("=")[0].removeprefix("spec.").removeprefix("params.") for override in overrides if _names_a_param(override)
    ]
    text = repr(document) if params else ""
    return [name for name in params if f"${{{name}}}" not in text]


def _names_a_param(override: str) -> bool:
    return override.removeprefix("spec.").startswith("params.")


def _key(parent: Any, part: str, path: str) -> str | int:
    """Returns the mapping key or list index that one part of an override's path refers to."""
    if isinstance(parent, dict):
        return part
    if not isinstance(parent, list):
        raise SpecError(
            [
                Fault(
                    f"--set {path}",
                    f"{part} is below a {'text' if isinstance(parent, str) else type(parent).__name__}, which has no fields",
                )
            ]
        )
    if not part.isdecimal() or int(part) >= len(parent):
        raise SpecError([Fault(f"--set {path}", f"expected an index from 0 to {len(parent) - 1}, got {part}")])
    return int(part)


def _value(text: str) -> Any:
    if text.startswith(("|", ">", "#")):
        return text  # YAML would take this as a comment, or as a block whose content must be on the next lines
    try:
        return yaml.safe_load(text)
    except (yaml.YAMLError, ValueError, RecursionError):
        return text
