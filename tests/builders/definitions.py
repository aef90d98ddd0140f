"""CustomResourceDefinitions as the next release may have them."""

import copy
from typing import Any


def with_second_version(definition: dict[str, Any]) -> dict[str, Any]:  # Any: YAML
    """The definition with its version once more, as v1beta1."""
    whole = copy.deepcopy(definition)
    (version,) = whole["spec"]["versions"]
    whole["spec"]["versions"].append(version | {"name": "v1beta1", "storage": False})
    return whole
