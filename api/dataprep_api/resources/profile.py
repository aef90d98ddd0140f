"""A `DataPrepProfile`: what the jobs of a namespace get when they don't say otherwise. The job wins, then its profile, then the chart's values."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final, Literal, Self

from pydantic import Field, ValidationError

from dataprep_api import API_VERSION, PROFILE_KIND
from dataprep_api.errors import Fault, SpecError
from dataprep_api.resources.job import Metadata, fault
from dataprep_api.spec import LocalObjectReference, Model, Resources, Store, Toleration
from dataprep_api.spec.model import StringMap

DEFAULT: Final = "default"
"""Name of the profile that jobs get which name none."""


class ProfileWorkers(Model):
    """What is said once about the converter pods of many jobs. Each field is that of `spec.workers`, and is taken whole."""

    image: Annotated[str, Field(min_length=1, max_length=512)] | None = None
    """As in `workers` of a DataPrepJob."""
    image_pull_policy: Literal["Always", "IfNotPresent", "Never"] | None = None
    """As in `workers` of a DataPrepJob."""
    image_pull_secrets: Annotated[list[LocalObjectReference], Field(max_length=16)] | None = None
    """As in `workers` of a DataPrepJob."""
    resources: Resources | None = None
    """As in `workers` of a DataPrepJob."""
    node_selector: StringMap | None = None
    """As in `workers` of a DataPrepJob."""
    tolerations: Annotated[list[Toleration], Field(max_length=32)] | None = None
    """As in `workers` of a DataPrepJob."""
    service_account_name: Annotated[str, Field(min_length=1, max_length=253)] | None = None
    """As in `workers` of a DataPrepJob."""
    priority_class_name: Annotated[str, Field(min_length=1, max_length=253)] | None = None
    """As in `workers` of a DataPrepJob."""


class DataPrepProfileSpec(Model):
    """Defaults."""

    stores: Annotated[list[Store], Field(max_length=32)] | None = None
    """Added to the `stores` of the job. A store of the job with the same `uriPrefix` wins."""
    workers: ProfileWorkers | None = None
    """Fields of `workers` that the job leaves out."""


class DataPrepProfile(Model):
    """Defaults of the DataPrepJobs of a namespace: of those that name it in `spec.profile`, or of all that name none when it is called `default`."""

    api_version: Literal["dataprep.io/v1alpha1"] = API_VERSION  # type: ignore[assignment]  # the constant is that literal
    kind: Literal["DataPrepProfile"] = PROFILE_KIND  # type: ignore[assignment]  # the same
    metadata: Metadata
    spec: DataPrepProfileSpec

    @classmethod
    def parse(cls, document: object) -> Self:
        """The profile in `document`. Raises SpecError with every fault found."""
        if not isinstance(document, dict):
            raise SpecError([Fault("", f"expected a mapping with apiVersion, kind, metadata and spec, got {type(document).__name__}")])
        try:
            return cls.model_validate(document, by_alias=True, by_name=False)
        except ValidationError as exc:
            raise SpecError([fault(cls, error) for error in exc.errors()]) from exc


# Any: specs as the API's JSON.
def merged(spec: Mapping[str, Any], profile: Mapping[str, Any], *, name: str) -> dict[str, Any]:
    """A job's spec with what it leaves out from the profile's spec, and the profile's name. Pure; neither is changed.

    What is of another form than the models say stays as it is, for these to refuse it.
    """
    whole = {**spec, "profile": name}
    stores, more = spec.get("stores") or [], profile.get("stores")
    if more and isinstance(stores, list) and isinstance(more, list):
        whole["stores"] = _stores(stores, more)
    workers, defaults = spec.get("workers") or {}, profile.get("workers")
    if defaults and isinstance(workers, Mapping) and isinstance(defaults, Mapping):
        whole["workers"] = {**defaults, **{key: value for key, value in workers.items() if value is not None}}
    return whole


def _stores(own: Sequence[Any], more: Sequence[Any]) -> list[Any]:
    prefixes = [each.get("uriPrefix") for each in own if isinstance(each, dict)]
    return [*own, *(each for each in more if not isinstance(each, dict) or each.get("uriPrefix") not in prefixes)]
