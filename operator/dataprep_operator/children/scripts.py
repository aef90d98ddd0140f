"""Builds the pod template of `spec.script`, which runs the user's program in the convert Job instead of the converter.

Here both the image and its program come from the user, so this module is separate from `pod_template.py`. All functions are pure.
"""

from collections.abc import Sequence
from typing import Any, Final

from dataprep_api import names
from dataprep_api.spec import DataPrepJobSpec
from dataprep_api.spec.script import Script
from dataprep_operator.settings import PodDefaults

Body = dict[str, Any]

_TOKEN: Final = "dataprep-token"  # noqa: S105 - a volume
_NOT_THE_USERS: Final = frozenset({"dataprep-spec", _TOKEN})
"""Volumes that only the converter uses, most importantly the volume with the token for progress reports."""


def image(spec: DataPrepJobSpec, defaults: PodDefaults) -> str:
    """Return the image of the convert step."""
    script = spec.script
    if script is not None and script.image is not None:
        return script.image
    if script is not None and script.framework is not None and script.framework in defaults.frameworks:
        return defaults.frameworks[script.framework]
    return spec.workers.image or defaults.image


def framework_fault(spec: DataPrepJobSpec, defaults: PodDefaults) -> str | None:
    """Return why `script.framework` is invalid, or None."""
    framework = spec.script.framework if spec.script is not None else None
    if framework is None or framework in defaults.frameworks:
        return None
    known_frameworks = ", ".join(sorted(defaults.frameworks)) or "none"
    return f"spec.script.framework: no framework named {framework!r} in this installation (known: {known_frameworks}); set script.image instead"


def pod(converter: Body, spec: DataPrepJobSpec, script: Script, *, run_id: str, code: str | None, defaults: PodDefaults) -> Body:
    """Return the converter's pod template, changed so that it runs the user's program.

    `code` is the folder of `spec.code`.
    """
    (container,) = converter["spec"]["containers"]
    inherited_fields = {key: value for key, value in container.items() if key not in ("args", "imagePullPolicy")}
    pull_policy = spec.workers.image_pull_policy or (defaults.image_pull_policy if image(spec, defaults) == defaults.image else None)
    folder = script.working_directory or code
    program = inherited_fields | {
        "image": image(spec, defaults),
        "command": script.arguments(spec.output.uri),
        "env": _environment(container["env"], spec, script, run_id=run_id, code=code),
        "volumeMounts": _without(container["volumeMounts"], _NOT_THE_USERS),
        # The root file system is writable, because a user's image may write to any path. The other restrictions of the Pod Security
        # Standard `restricted` still apply.
        "securityContext": container["securityContext"] | {"readOnlyRootFilesystem": False},
        **({"workingDir": folder} if folder is not None else {}),
        **({"imagePullPolicy": pull_policy} if pull_policy else {}),
    }
    annotations = converter["metadata"]["annotations"] | {names.ANNOTATION_SCRIPT: "true"}
    return {
        "metadata": converter["metadata"] | {"annotations": annotations},
        "spec": converter["spec"] | {"containers": [program], "volumes": _without(converter["spec"]["volumes"], frozenset({_TOKEN}))},
    }


def _environment(env: Sequence[Body], spec: DataPrepJobSpec, script: Script, *, run_id: str, code: str | None) -> list[Body]:
    variables = {
        "DATAPREP_INPUT": script.input,
        "DATAPREP_OUTPUT": spec.output.uri,
        "DATAPREP_RUN_ID": run_id,
        "DATAPREP_CODE": code,
    }
    count = len(spec.workers.env or [])
    return [
        # In an arbitrary image, the pod's user has no home directory.
        {"name": "HOME", "value": "/tmp"},  # noqa: S108 - a path in the pod
        *env[:count],
        # `$` is doubled, because Kubernetes would expand $(…) in a URI.
        *({"name": name, "value": value.replace("$", "$$")} for name, value in variables.items() if value is not None),
    ]


def _without(items: Sequence[Body], excluded_names: frozenset[str]) -> list[Body]:
    return [item for item in items if item["name"] not in excluded_names]
