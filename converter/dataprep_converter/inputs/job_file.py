"""Loads a job's YAML file and applies overrides from the command line."""

import logging
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, Final

from dataprep_api import API_VERSION, CRON_KIND, KIND, PROFILE_KIND
from dataprep_api.errors import Fault, SpecError
from dataprep_api.resources.job import DataPrepJob
from dataprep_converter.inputs.documents import Document, read_documents

logger = logging.getLogger(__name__)

_NAME: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
"""The names that Kubernetes accepts for objects: DNS subdomains."""


def load(file: str, *, overrides: Sequence[str] = (), profile: str | None = None, new: bool = False) -> DataPrepJob:
    """Loads the DataPrepJob in `file` (`-` is standard input).

    Fields that the job omits are taken from the DataPrepProfile in the file `profile`. With `new`, the job must also obey the rules that
    stored jobs are allowed to break (see `DataPrepJob.parse`). Raises SpecError if a file can't be read or has faults.
    """
    documents = read_documents(file)
    chosen = _job(documents, file)
    below = _below(chosen)
    document = _job_of_cron_job(chosen) if below else chosen.value
    for override in overrides:
        set_field(document, override)
    if profile is not None and isinstance(document, dict) and isinstance(document.get("spec"), dict):
        document = document | {"spec": _with_profile(document["spec"], profile)}
    with _placed(chosen, overrides=overrides, below=below):
        job = DataPrepJob.parse(document, new=new)
    if new:
        check_name(job.metadata.name, place=chosen.place("metadata.name"))
    for name in unused_params(document, overrides):
        logger.warning("--set params.%s has no effect: the job doesn't contain ${%s}", name, name)
    if job.spec.code is not None and job.spec.code.config_map_ref is not None:
        from dataprep_converter.runtime import plugins  # not imported at the top, because it imports Arrow, which is slow

        if not os.environ.get(plugins.CODE_VARIABLE):
            plugins.provide(_config_map(documents, job.spec.code.config_map_ref.name))
    return job


def check_name(name: str, *, place: str = "") -> None:
    """Raises SpecError for a name that Kubernetes would refuse."""
    if _NAME.fullmatch(name) is None:
        raise SpecError([Fault("metadata.name", _name_fault(name), place=place)])


def job_in(file: str) -> tuple[Document, str]:
    """Returns the document that contains a file's job, and the job's path in this document (empty for a DataPrepJob).

    Raises SpecError.
    """
    chosen = _job(read_documents(file), file)
    return chosen, _below(chosen)


def place_of(path: str, document: Document, overrides: Sequence[str], *, below: str) -> str:
    """Returns where the user wrote a field of the job, in the document or in an override. Empty if the user didn't write the field."""
    place = _place(path, document, overrides, below)
    return place if place.startswith("--set") or document.has(f"{below}{path}") else ""


def _job_of_cron_job(cron_job: Document) -> Any:
    """Returns the job that a DataPrepCronJob would make now. The type is Any, because the job is parsed YAML."""
    # Not imported at the top, because a pod's job needs no cron job and no profile.
    from dataprep_api.resources.cron import DataPrepCronJob, job_document

    with _placed(cron_job):
        DataPrepCronJob.parse(cron_job.value)
    return job_document(cron_job.value, scheduled=datetime.now(UTC))


def _below(document: Document) -> str:
    return "spec.jobTemplate." if document.value.get("kind") == CRON_KIND else ""


def _name_fault(name: str) -> str:
    valid = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")
    proposal = f"; write {valid}" if valid else ""
    return f"Kubernetes refuses the name {name!r}: names have lower-case letters, digits, - and .{proposal}"


@contextmanager
def _placed(document: Document, *, overrides: Sequence[str] = (), below: str = "") -> Iterator[None]:
    """Adds a place to each fault of a SpecError: the place of the fault's field in the document, or an override.

    `below` is the job's path in the document.
    """
    try:
        yield
    except SpecError as exc:
        raise SpecError(
            [replace(fault, place=_place(fault.path, document, overrides, below, unknown=fault.unknown)) for fault in exc.faults]
        ) from exc


def _place(path: str, document: Document, overrides: Sequence[str], below: str, *, unknown: bool = False) -> str:
    """Returns where the user wrote a field. `unknown` means that the model has no such field."""
    for override in reversed(overrides):
        field = override.partition("=")[0].removeprefix("spec.")
        # Overrides use the form splits.into.0.name, but faults use splits.into[0].name.
        overridden = re.sub(r"\.(\d+)(?=\.|$)", r"[\1]", f"spec.{field}")
        is_above = unknown and overridden.startswith(f"{path}.")
        if is_above or path == overridden or path.startswith((f"{overridden}.", f"{overridden}[")):
            return f"--set {field}"
    return document.place(f"{below}{path}", of_key=unknown)


def _with_profile(spec: dict[str, Any], file: str) -> dict[str, Any]:
    """Returns the spec, completed with a profile's values. The values are Any, because they are parsed YAML.

    If the file has several profiles, the profile that the job names is used, or else the profile called `default`.
    """
    # Not imported at the top, because a pod's job needs no profile.
    from dataprep_api.resources.profile import DEFAULT, DataPrepProfile, with_defaults

    profiles = [each for each in read_documents(file) if isinstance(each.value, dict) and each.value.get("kind") == PROFILE_KIND]
    name = spec.get("profile")
    matching = [each for each in profiles if (each.value.get("metadata") or {}).get("name") == (name or DEFAULT)]
    if not matching and name is None and len(profiles) == 1:
        matching = profiles
    if not matching:
        raise SpecError([Fault("spec.profile", f"{file} has no {PROFILE_KIND} {name or DEFAULT}")])
    with _placed(matching[0]):
        profile = DataPrepProfile.parse(matching[0].value)
    defaults = profile.spec.model_dump(mode="json", by_alias=True, exclude_none=True, exclude_unset=True)
    return with_defaults(spec, defaults, name=profile.metadata.name)


def _config_map(documents: Sequence[Document], name: str) -> dict[str, str]:
    """Returns the data of a ConfigMap in the job's file. Returns an empty dict if the file has no such ConfigMap: the modules that are then
    missing are reported later."""
    for document in (each.value for each in documents):
        if isinstance(document, dict) and document.get("kind") == "ConfigMap" and document.get("metadata", {}).get("name") == name:
            return {str(key): str(value) for key, value in (document.get("data") or {}).items()}
    return {}


def _job(documents: Sequence[Document], file: str) -> Document:
    """Returns the only DataPrepJob or DataPrepCronJob among the documents.

    If there is only one document, returns this document, whatever its kind.
    """
    jobs = [each for each in documents if isinstance(each.value, dict) and each.value.get("kind") in (KIND, CRON_KIND)]
    if len(jobs) == 1:
        return jobs[0]
    if len(documents) == 1 and isinstance(documents[0].value, dict):
        return documents[0]
    if len(documents) == 1:
        kind = type(documents[0].value).__name__
        advice = f"; if it is data, run dataprep infer {file}" if kind != "list" else ""
        raise SpecError([Fault("", f"{file}: expected a mapping with apiVersion, kind, metadata and spec, got {kind}{advice}")])
    raise SpecError(
        [Fault("", f"{file} must contain exactly one {KIND} of {API_VERSION}, but contains {len(jobs)} in {len(documents)} documents")]
    )


def set_field(document: Any, override: str) -> None:
    """Applies an override such as `output.shards.count=8`, relative to `spec`.

    The value is parsed as YAML. A value is text if it belongs to params, or if it isn't valid YAML.
    """
    path, equals, value = override.partition("=")
    parts = path.removeprefix("spec.").split(".")
    if not equals or not all(parts) or path != path.strip():
        raise SpecError([Fault("--set", f"expected FIELD=VALUE, got {override!r}; write it as one word, such as output.uri=out")])
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
    """Returns the params that the overrides set but the job doesn't use, mostly because of typos. The job may be any parsed YAML."""
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
                    f"the parent of {part} is of type {'text' if isinstance(parent, str) else type(parent).__name__}, which has no fields",
                )
            ]
        )
    if not part.isdecimal() or int(part) >= len(parent):
        raise SpecError([Fault(f"--set {path}", f"expected an index from 0 to {len(parent) - 1}, got {part}")])
    return int(part)


def _value(text: str) -> Any:
    if text.startswith(("|", ">", "#")):
        return text  # YAML would take this as a comment, or as a block whose content must be on the next lines
    import yaml  # not imported at the top, because a pod's job has no overrides

    try:
        return yaml.safe_load(text)
    except (yaml.YAMLError, ValueError, RecursionError):
        return text
