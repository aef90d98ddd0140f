"""A job's YAML file with overrides from the command line."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from dataprep_api import API_VERSION, KIND
from dataprep_api.errors import Fault, SpecError
from dataprep_api.job import DataPrepJob


def load(file: str, *, overrides: Sequence[str] = ()) -> DataPrepJob:
    """The DataPrepJob in `file` (`-` is standard input). Raises SpecError for a file that can't be read, and for every fault in it."""
    document = _document(file)
    for override in overrides:
        _set(document, override)
    return DataPrepJob.parse(document)


def _document(file: str) -> Any:
    """The one DataPrepJob among the file's documents. Any: YAML."""
    try:
        text = sys.stdin.read() if file == "-" else Path(file).read_text(encoding="utf-8")
        documents = [document for document in yaml.safe_load_all(text) if document is not None]
    except (OSError, UnicodeDecodeError) as exc:
        raise SpecError([Fault("", f"can't read {file}: {exc.strerror if isinstance(exc, OSError) else exc}")]) from exc
    except yaml.YAMLError as exc:
        raise SpecError([Fault("", f"{file} is not YAML: {' '.join(str(exc).split())}")]) from exc
    jobs = [document for document in documents if isinstance(document, dict) and document.get("kind") == KIND]
    if len(jobs) == 1:
        return jobs[0]
    if len(documents) == 1 and not jobs:
        return documents[0]
    raise SpecError([Fault("", f"{file} must hold one {KIND} of {API_VERSION}, it has {len(jobs)} in {len(documents)} documents")])


def _set(document: Any, override: str) -> None:
    """`output.shards.count=8` below `spec`; the value is YAML."""
    path, equals, value = override.partition("=")
    if not equals or not path:
        raise SpecError([Fault("--set", f"expected FIELD=VALUE, got {override!r}")])
    if not isinstance(document, dict) or not isinstance(document.setdefault("spec", {}), dict):
        raise SpecError([Fault("spec", "expected a mapping")])
    here: Any = document["spec"]
    parts = path.removeprefix("spec.").split(".")
    for part in parts[:-1]:
        if isinstance(here, list) and part.isdigit() and int(part) < len(here):
            here = here[int(part)]
        elif isinstance(here, dict):
            here = here.setdefault(part, {})
        else:
            raise SpecError([Fault(f"--set {path}", f"{part} is not a field of a mapping")])
    last = parts[-1]
    if isinstance(here, list) and last.isdigit() and int(last) < len(here):
        here[int(last)] = yaml.safe_load(value)
    elif isinstance(here, dict):
        here[last] = value if parts[0] == "params" else yaml.safe_load(value)
    else:
        raise SpecError([Fault(f"--set {path}", f"{last} is not a field of a mapping")])
