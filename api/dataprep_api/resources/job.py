"""The complete `DataPrepJob`, as users write it in YAML and the API server stores it."""

import itertools
import shlex
from typing import Any, Final, Literal, Self

from pydantic import Field, ValidationError

from dataprep_api import API_VERSION, KIND
from dataprep_api.errors import Fault, SpecError
from dataprep_api.resources.faults import fault
from dataprep_api.resources.params import fill, fill_command
from dataprep_api.resources.status import DataPrepJobStatus
from dataprep_api.spec import DataPrepJobSpec, Model, Open
from dataprep_api.spec.model import NEW
from dataprep_api.spec.script import VARIABLES


class Metadata(Open):
    """The object's metadata. Only the name is checked."""

    name: str = Field(min_length=1, max_length=253)


class DataPrepJob(Model):
    """Converts raw data into shards for training."""

    api_version: Literal["dataprep.io/v1alpha1"] = API_VERSION  # type: ignore[assignment]  # the constant is that literal
    kind: Literal["DataPrepJob"] = KIND  # type: ignore[assignment]  # the constant is that literal
    metadata: Metadata
    spec: DataPrepJobSpec
    status: DataPrepJobStatus | None = None

    @classmethod
    def parse(cls, document: object, *, new: bool = False) -> Self:
        """Parse `document` and replace each `${NAME}` by the param's value. Raises SpecError with all faults, each with its field path.

        With `new`, duplicates in lists such as `env` are faults, because the API server refuses them too. Stored objects may contain such
        duplicates, because earlier releases accepted them.
        """
        if not isinstance(document, dict):
            raise SpecError([Fault("", f"expected a mapping with apiVersion, kind, metadata and spec, got {type(document).__name__}")])
        _check_values(document)
        filled = _with_params(document)
        # Build the spec's validator first, so that the job's validator reuses it instead of building it again.
        DataPrepJobSpec.model_rebuild()
        try:
            # Only aliases are accepted, because the API server would prune fields with Python names such as `file_name`.
            return cls.model_validate(filled, by_alias=True, by_name=False, context={NEW: new})
        except ValidationError as exc:
            raise SpecError([fault(cls, error, document) for error in exc.errors()]) from exc


_DEEPEST: Final = 64
_MOST_VALUES: Final = 1_000_000
"""The maximum number of values in a document. A Kubernetes object is at most 3 MiB long, so a valid object contains fewer values."""


def _check_values(document: object) -> None:
    """Raise SpecError for YAML values that JSON doesn't allow: lists that contain themselves, and strings that aren't valid UTF-8."""
    pending: list[tuple[object, str, int]] = [(document, "", 0)]
    for seen in itertools.count():
        if not pending:
            return
        value, path, depth = pending.pop()
        if depth > _DEEPEST or seen > _MOST_VALUES:
            what = f"is nested more than {_DEEPEST} levels deep" if depth > _DEEPEST else f"contains more than {_MOST_VALUES:,} values"
            raise SpecError([Fault(path.split("[")[0][:64], f"{what}; does an alias (*) refer to itself?")])
        if isinstance(value, dict):
            pending += ((member, f"{path}.{name}" if path else str(name), depth + 1) for name, member in value.items())
            pending += ((name, path, depth + 1) for name in value if isinstance(name, str))
        elif isinstance(value, list):
            pending += ((member, f"{path}[{number}]", depth + 1) for number, member in enumerate(value))
        elif isinstance(value, str) and not value.isascii() and any("\ud800" <= letter <= "\udfff" for letter in value):
            raise SpecError([Fault(path, "expected text, got bytes that aren't UTF-8")])


_FIELDS_WITH_PARAMS = ("source", "code", "features", "labels", "transforms", "splits", "output", "stores")


def _with_params(document: dict[str, Any]) -> dict[str, Any]:
    spec = document.get("spec")
    if not isinstance(spec, dict):
        return document
    params = spec.get("params") or {}
    if not isinstance(params, dict):
        return document
    texts = {str(name): str(value) for name, value in params.items()}
    filled = {key: fill(value, texts, path=f"spec.{key}") if key in _FIELDS_WITH_PARAMS else value for key, value in spec.items()}
    if isinstance(spec.get("script"), dict):
        filled["script"] = _fill_script(spec["script"], texts, spec)
    return document | {"spec": filled | ({"params": texts} if texts else {})}


# The values have the type Any, because they are parsed YAML.
def _fill_script(script: dict[str, Any], params: dict[str, str], spec: dict[str, Any]) -> dict[str, Any]:
    """Fill in the params of a script. The command is split into words before the params are filled in. So the value of a param is never split."""
    rest: dict[str, Any] = fill({key: value for key, value in script.items() if key != "command"}, params, path="spec.script")
    command = script.get("command")
    if isinstance(command, str):
        try:
            command = shlex.split(command)
        except ValueError:
            return rest | {"command": command}  # the quote isn't closed, which the model reports
    if not isinstance(command, list):
        return rest | ({"command": command} if "command" in script else {})
    workers = spec.get("workers")
    env = workers.get("env") if isinstance(workers, dict) else None
    variables = (
        [str(variable["name"]) for variable in env if isinstance(variable, dict) and "name" in variable] if isinstance(env, list) else []
    )
    variables += [name for name, needed in VARIABLES.items() if needed is None or spec.get(needed) or script.get(needed)]
    return rest | {"command": fill_command(command, params, variables=variables, path="spec.script.command")}
