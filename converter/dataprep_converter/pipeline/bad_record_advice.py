"""What to change when a bad record ends a job. Leaving the record out is right only if nothing else is wrong."""

import re
from collections.abc import Sequence
from typing import Final

from dataprep_api.spec import LabelFeature

_OUTSIDE: Final = re.compile(r"(?:.*: )?(?P<name>.+) (?P<value>-?\d+) is outside 0\.\.\d+")
_ENCODING: Final = "is not UTF-8"
_PLUGIN: Final = "the plug-in "
_SKIP: Final = "onBadRecord.policy: Skip to leave such records out."


def advice_for(reason: str, labels: Sequence[LabelFeature]) -> str:
    """Returns the advice that follows the fault of a record, in the error message of a job whose policy is `Fail`."""
    outside = _OUTSIDE.fullmatch(reason)
    label = next((each for each in labels if outside is not None and each.name == outside["name"] and each.num_classes is not None), None)
    if outside is not None and label is not None:
        value = int(outside["value"])
        if value < 0:
            return f"Classes are numbered from 0; number the values of {label.name!r} by a vocabulary in transforms."
        return f"If {value} is a class, numClasses of the label {label.name!r} must be at least {value + 1}, got {label.num_classes}."
    if _ENCODING in reason:
        return f"If the file has another encoding, name it in the source, such as encoding: Latin1. Otherwise, set {_SKIP}"
    if _PLUGIN in reason:
        return f"Correct the function, or set {_SKIP}"
    return f"Set {_SKIP}"
