"""The `DataPrepProfile`, which contains defaults for the jobs of a namespace.

A field that the job sets takes precedence over the job's profile, and the profile takes precedence over the chart's values.
"""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final, Literal, Self

from pydantic import Field, ValidationError

from dataprep_api import API_VERSION, PROFILE_KIND
from dataprep_api.errors import Fault, SpecError
from dataprep_api.resources.faults import fault
from dataprep_api.resources.job import Metadata
from dataprep_api.spec import Model, Resources
from dataprep_api.spec.model import StringMap
from dataprep_api.spec.workers import ImagePullSecrets, Stores, Tolerations

DEFAULT: Final = "default"
"""The name of the profile that applies to jobs without `spec.profile`."""


class ProfileWorkers(Model):
    """Settings for converter pods, shared by many jobs. The fields have the same meaning as in a DataPrepJob's `spec.workers`. If the job sets a field, the job's value replaces the profile's value as a whole. The two values aren't merged."""

    image: Annotated[str, Field(min_length=1, max_length=512)] | None = None
    """The same as in `workers` of a DataPrepJob."""
    image_pull_policy: Literal["Always", "IfNotPresent", "Never"] | None = None
    """The same as in `workers` of a DataPrepJob."""
    image_pull_secrets: ImagePullSecrets | None = None
    """The same as in `workers` of a DataPrepJob."""
    resources: Resources | None = None
    """The same as in `workers` of a DataPrepJob."""
    node_selector: StringMap | None = None
    """The same as in `workers` of a DataPrepJob."""
    tolerations: Tolerations | None = None
    """The same as in `workers` of a DataPrepJob."""
    service_account_name: Annotated[str, Field(min_length=1, max_length=253)] | None = None
    """The same as in `workers` of a DataPrepJob."""
    priority_class_name: Annotated[str, Field(min_length=1, max_length=253)] | None = None
    """The same as in `workers` of a DataPrepJob."""


class DataPrepProfileSpec(Model):
    """Defaults for jobs."""

    stores: Stores | None = None
    """Stores to add to the `stores` of the job. If the job has a store with the same `uriPrefix`, the job's store is used."""
    workers: ProfileWorkers | None = None
    """Values for fields of `workers` that the job leaves out."""


class DataPrepProfile(Model):
    """Defaults for the DataPrepJobs of a namespace that name this profile in `spec.profile`.

    A profile named `default` also applies to all jobs that name no profile.
    """

    api_version: Literal["dataprep.io/v1alpha1"] = API_VERSION  # type: ignore[assignment]  # the constant is that literal
    kind: Literal["DataPrepProfile"] = PROFILE_KIND  # type: ignore[assignment]  # the same
    metadata: Metadata
    spec: DataPrepProfileSpec

    @classmethod
    def parse(cls, document: object) -> Self:
        """Parse the profile in `document`. Raises SpecError with all faults that were found."""
        if not isinstance(document, dict):
            raise SpecError([Fault("", f"expected a mapping with apiVersion, kind, metadata and spec, got {type(document).__name__}")])
        try:
            return cls.model_validate(document, by_alias=True, by_name=False)
        except ValidationError as exc:
            raise SpecError([fault(cls, error, document) for error in exc.errors()]) from exc


# The values have the type Any, because the specs are parsed JSON.
def with_defaults(spec: Mapping[str, Any], profile: Mapping[str, Any], *, name: str) -> dict[str, Any]:
    """Return a copy of a job's spec with missing fields filled in from the profile's spec, and with the profile's name.

    Values of an unexpected type stay as they are. The models refuse them later.
    """
    merged_spec = {**spec, "profile": name}
    stores, more = spec.get("stores") or [], profile.get("stores")
    if more and isinstance(stores, list) and isinstance(more, list):
        merged_spec["stores"] = _merge_stores(stores, more)
    workers, defaults = spec.get("workers") or {}, profile.get("workers")
    if defaults and isinstance(workers, Mapping) and isinstance(defaults, Mapping):
        merged_spec["workers"] = {**defaults, **{key: value for key, value in workers.items() if value is not None}}
    return merged_spec


def _merge_stores(own: Sequence[Any], more: Sequence[Any]) -> list[Any]:
    prefixes = [store.get("uriPrefix") for store in own if isinstance(store, dict)]
    return [*own, *(store for store in more if not isinstance(store, dict) or store.get("uriPrefix") not in prefixes)]
