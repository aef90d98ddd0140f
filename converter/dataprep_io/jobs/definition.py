"""The description of a job. It comes from keyword arguments, a YAML file or an API server, and the API's models check it."""

import gc
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, Self

from dataprep_api import API_VERSION, KIND
from dataprep_api.errors import Fault, SpecError
from dataprep_api.resources.job import DataPrepJob
from dataprep_api.spec import DataPrepJobSpec
from dataprep_converter.inputs import job_file
from dataprep_converter.records.columns import similar
from dataprep_io import results
from dataprep_io.fields import plain
from dataprep_io.results import Result

_METADATA: Final = ("name", "namespace", "labels", "annotations")
"""The fields of a job's metadata that users write. The API server adds all other fields."""


@dataclass(frozen=True)
class Definition:
    """A job as the user has written it."""

    document: Mapping[str, Any]

    # Any, because a field can have any value that YAML can express.
    @classmethod
    def of_keywords(cls, name: str, spec: Mapping[str, Any]) -> Self:
        """Returns the job with these fields of the spec. Raises SpecError with all faults."""
        document = {"apiVersion": API_VERSION, "kind": KIND, "metadata": {"name": name}, "spec": _spec_fields(spec)}
        DataPrepJob.parse(document, new=True)
        job_file.check_name(name)
        return cls(document)

    @classmethod
    def of_yaml(cls, path: str) -> Self:
        """Returns the job in a file. Raises SpecError with all faults, each with its line."""
        job_file.load(path, new=True)
        chosen, below = job_file.job_in(path)
        if below:
            raise SpecError([Fault("kind", f"expected {KIND}, got {chosen.value['kind']}; apply it with kubectl")])
        return cls(_written(chosen.value))

    @classmethod
    def of_object(cls, body: Mapping[str, Any]) -> Self:
        """Returns the job in an object from the API server. The object may have fields that only a later release knows."""
        return cls(_written(body))

    @cached_property
    def job(self) -> DataPrepJob:
        """The validated job. Raises SpecError if the job has fields that only a later release knows."""
        return DataPrepJob.parse(dict(self.document))

    @property
    def name(self) -> str:
        """The name of the DataPrepJob."""
        name: str = self.document["metadata"]["name"]
        return name

    @property
    def namespace(self) -> str | None:
        """The namespace in the job's metadata, or None if there is none."""
        namespace: str | None = self.document["metadata"].get("namespace")
        return namespace

    def body(self, namespace: str) -> dict[str, Any]:
        """Returns the object to create in a namespace."""
        return {**self.document, "metadata": {**self.document["metadata"], "namespace": namespace}}

    def to_yaml(self) -> str:
        """Returns the job as YAML."""
        import yaml

        text: str = yaml.safe_dump(dict(self.document), sort_keys=False, allow_unicode=True)
        return text

    def run(self, *, workers: int | None, quiet: bool) -> Result:
        """Runs all steps on this machine."""
        from dataprep_converter.cli.arguments import with_code
        from dataprep_converter.cli.display import Display
        from dataprep_converter.inputs.store_settings import access_of
        from dataprep_converter.runtime import fork_server, limits
        from dataprep_converter.steps.run import run
        from dataprep_io.data.parameters import whole_number

        count = limits.processes() if workers is None else whole_number(workers, "workers")
        if count > 1:
            fork_server.get_ready()
        job = with_code(self.job)
        display = Display(quiet=quiet)
        try:
            with _collector_restored():
                plan, commit = run(job, access=access_of(job), workers=count, display=display)
        finally:
            display.close()
        return results.of_commit(job.spec.output.uri, commit, plan)


@contextmanager
def _collector_restored() -> Iterator[None]:
    """Restores the garbage collector's settings after a run. A run tunes the collector for a process that only converts, but the user's
    process also does other work."""
    thresholds, frozen = gc.get_threshold(), gc.get_freeze_count()
    try:
        yield
    finally:
        gc.set_threshold(*thresholds)
        if not frozen:
            gc.unfreeze()


def _written(body: Mapping[str, Any]) -> dict[str, Any]:
    """Returns an object without the fields that the API server has added."""
    metadata = {name: value for name, value in body["metadata"].items() if name in _METADATA}
    return {"apiVersion": API_VERSION, "kind": KIND, "metadata": metadata, "spec": body["spec"]}


def _spec_fields(keywords: Mapping[str, Any]) -> dict[str, Any]:
    """Converts keywords to fields of the spec. Raises SpecError for an unknown keyword."""
    aliases = {name: field.alias or name for name, field in DataPrepJobSpec.model_fields.items()}
    for name in keywords:
        if name not in aliases:
            raise SpecError([Fault(name, f"a job has no such field.{similar(name, list(aliases))}", unknown=True)])
    return {aliases[name]: plain(value) for name, value in keywords.items()}
