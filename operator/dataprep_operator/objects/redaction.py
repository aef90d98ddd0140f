"""Redacts credentials and escapes control characters in texts from pods, nodes and the API server, before they reach a status.

All functions are pure.
"""

from collections.abc import Mapping
from typing import Any, Final, TypeVar

from pydantic import BaseModel

from dataprep_api.resources.status import DataPrepJobStatus
from dataprep_api.shown import redacted, shown

_MIN_LENGTH: Final = 256
"""The shortest length limit of all texts in a status, apart from digests. Redaction never cuts a text to less than this."""
_M = TypeVar("_M", bound=BaseModel)


def redact_status(status: DataPrepJobStatus) -> DataPrepJobStatus:
    """Return the status with every text passed through `shown`, and still within its length limit.

    Texts that the operator reads back later stay unchanged: the handled retry, and the URIs of the output and of `fromJob`. The URIs are
    redacted only if they contain credentials.
    """
    place = status.output.uri if status.output is not None else None
    found = _redact_model(status, place if place is not None and redacted(place) == place else None)
    taken = status.from_job
    kept = taken if taken is None or redacted(taken.uri) == taken.uri else taken.model_copy(update={"uri": redacted(taken.uri)})
    return found.model_copy(update={"from_job": kept, "handled_retry": status.handled_retry})


def _redact_model(model: _M, place: str | None) -> _M:
    fields = {name: getattr(model, name) for name in type(model).model_fields}
    changed = {name: of for name, value in fields.items() if (of := _redact(value, place)) != value}
    return model.model_copy(update=changed) if changed else model


# Any: a value of a status.
def _redact(value: Any, place: str | None) -> Any:
    if isinstance(value, str):
        return _text(value, place)
    if isinstance(value, BaseModel):
        return _redact_model(value, place)
    if isinstance(value, Mapping):
        return {_text(key, place): _redact(each, place) for key, each in value.items()}
    return [_redact(each, place) for each in value] if isinstance(value, list) else value


def _text(text: str, place: str | None) -> str:
    kept = place if place is not None and text.startswith(place) else ""
    found = kept + shown(text.removeprefix(kept))
    return found if found == text else found[: max(len(text), _MIN_LENGTH)]
