"""Redacts credentials and escapes control characters in texts from pods, nodes and the API server, before they reach a status.

All functions are pure.
"""

from collections.abc import Mapping
from typing import Any, Final, TypeVar

from pydantic import BaseModel

from dataprep_api.redaction import for_display, redacted
from dataprep_api.resources.status import DataPrepJobStatus

_MIN_LENGTH: Final = 256
"""The smallest length limit of all texts in a status, except digests. Redaction never truncates a text to fewer characters than this."""
_M = TypeVar("_M", bound=BaseModel)


def redact_status(status: DataPrepJobStatus) -> DataPrepJobStatus:
    """Return the status with `shown` applied to every text. Each text stays within its length limit.

    The operator later reads `handledRetry` and the URIs of the output and of `fromJob` from the status. So these values stay unchanged,
    except that URIs with credentials are redacted.
    """
    output_uri = status.output.uri if status.output is not None else None
    redacted_status = _redact_model(status, output_uri if output_uri is not None and redacted(output_uri) == output_uri else None)
    from_job = status.from_job
    redacted_from_job = (
        from_job
        if from_job is None or redacted(from_job.uri) == from_job.uri
        else from_job.model_copy(update={"uri": redacted(from_job.uri)})
    )
    return redacted_status.model_copy(update={"from_job": redacted_from_job, "handled_retry": status.handled_retry})


def _redact_model(model: _M, output_uri: str | None) -> _M:
    fields = {name: getattr(model, name) for name in type(model).model_fields}
    changes = {name: redacted_value for name, value in fields.items() if (redacted_value := _redact(value, output_uri)) != value}
    return model.model_copy(update=changes) if changes else model


# Any, because the values in a status have several types.
def _redact(value: Any, output_uri: str | None) -> Any:
    if isinstance(value, str):
        return _redact_text(value, output_uri)
    if isinstance(value, BaseModel):
        return _redact_model(value, output_uri)
    if isinstance(value, Mapping):
        return {_redact_text(key, output_uri): _redact(item, output_uri) for key, item in value.items()}
    return [_redact(item, output_uri) for item in value] if isinstance(value, list) else value


def _redact_text(text: str, output_uri: str | None) -> str:
    unchanged = output_uri if output_uri is not None and text.startswith(output_uri) else ""
    redacted_text = unchanged + for_display(text.removeprefix(unchanged))
    return redacted_text if redacted_text == text else redacted_text[: max(len(text), _MIN_LENGTH)]
