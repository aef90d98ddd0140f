"""Optional OpenTelemetry traces: a span for each reconciliation of the operator and for each step of a run.

This module is in the API package because both the operator and the converter create spans. Tracing needs an OTLP endpoint in the
environment (`OTEL_EXPORTER_OTLP_ENDPOINT` or `OTEL_EXPORTER_OTLP_TRACES_ENDPOINT`). Without an endpoint, OpenTelemetry isn't imported, and
creating a span takes only one comparison. All other settings are OpenTelemetry's usual environment variables.
"""

import logging
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

logger = logging.getLogger(__name__)

ENDPOINTS: Final = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
_PREFIX: Final = "dataprep."

Tell = Callable[..., None]
"""Adds attributes to a span: `tell(run_id="…")` sets the attribute `dataprep.run_id`."""

# The type is Any, because OpenTelemetry is optional and its types can't be imported here.
_provider: Any = None


def is_requested(environ: Mapping[str, str] = os.environ) -> bool:
    """Whether the environment variables request traces."""
    return environ.get("OTEL_SDK_DISABLED", "").lower() != "true" and any(environ.get(name) for name in ENDPOINTS)


def set_up(service: str, *, processor: Any = None) -> None:
    """Start tracing if the environment variables request traces, or always if `processor` is given.

    Call this function once in each process, after the process has been forked. Call `shut_down` to send the spans that are still buffered.
    """
    global _provider
    if processor is None and not is_requested():
        return
    try:
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor

        if processor is None:
            from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

            processor = BatchSpanProcessor(OTLPSpanExporter())
    except ImportError as exc:
        logger.warning("tracing is off, although %s is set: %s. Run pip install 'dataprep-operator[tracing]'", " or ".join(ENDPOINTS), exc)
        return
    # The name in the environment variable OTEL_SERVICE_NAME takes precedence over `service`.
    _provider = TracerProvider(resource=Resource.create({} if os.environ.get("OTEL_SERVICE_NAME") else {"service.name": service}))
    _provider.add_span_processor(processor)


def shut_down() -> None:
    """Send the buffered spans and stop tracing. If the collector can't be reached, OpenTelemetry logs the failure and soon gives up."""
    global _provider
    if _provider is not None:
        _provider.shutdown()
        _provider = None


@contextmanager
def span(name: str, **attributes: str | int | None) -> Iterator[Tell]:
    """Run the body of the `with` statement in a span. Attribute names are prefixed with `dataprep.`.

    Yields a function that adds attributes to the span. An exception in the body is recorded in the span and raised again.
    """
    if _provider is None:
        yield _ignore_attributes
        return
    with _provider.get_tracer("dataprep").start_as_current_span(name, attributes=_prefixed_attributes(attributes)) as current:
        yield lambda **more: current.set_attributes(_prefixed_attributes(more))


def _ignore_attributes(**_: str | int | None) -> None:
    """Ignore the attributes, because tracing is off."""


def _prefixed_attributes(attributes: Mapping[str, str | int | None]) -> dict[str, str | int]:
    return {f"{_PREFIX}{name}": value for name, value in attributes.items() if value is not None}
