"""OpenTelemetry traces, for those who want them: a span for each look of the operator and each step of a run.

Here, because operator and converter both have spans and know nothing of each other. Without an OTLP endpoint in the environment (`OTEL_EXPORTER_OTLP_ENDPOINT`
or `OTEL_EXPORTER_OTLP_TRACES_ENDPOINT`) nothing is imported and a span costs one comparison; all else is OpenTelemetry's own: its variables say where and how.
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
"""Adds attributes to a span: `tell(run_id="…")` is the attribute `dataprep.run_id`."""

# Any: OpenTelemetry may not be installed, so its types can't be named here.
_provider: Any = None


def wanted(environ: Mapping[str, str] = os.environ) -> bool:
    """Whether the environment asks for traces."""
    return environ.get("OTEL_SDK_DISABLED", "").lower() != "true" and any(environ.get(name) for name in ENDPOINTS)


def set_up(service: str, *, processor: Any = None) -> None:
    """Begin to trace when the environment asks for it, or into `processor`. Call once in each process, after it was forked; `shut_down` sends the rest."""
    global _provider
    if processor is None and not wanted():
        return
    try:
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor

        if processor is None:
            from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

            processor = BatchSpanProcessor(OTLPSpanExporter())
    except ImportError as exc:
        logger.warning("no traces, although %s asks for them: %s; pip install 'dataprep-operator[tracing]'", " or ".join(ENDPOINTS), exc)
        return
    # A name from the environment (OTEL_SERVICE_NAME) wins over ours.
    _provider = TracerProvider(resource=Resource.create({} if os.environ.get("OTEL_SERVICE_NAME") else {"service.name": service}))
    _provider.add_span_processor(processor)


def shut_down() -> None:
    """Send what is left, and trace no more. A collector that can't be reached is OpenTelemetry's to log, and holds nothing up for long."""
    global _provider
    if _provider is not None:
        _provider.shutdown()
        _provider = None


@contextmanager
def span(name: str, **attributes: str | int | None) -> Iterator[Tell]:
    """A span round what is done within, with attributes `dataprep.<name>`; an exception is noted in it and goes on. Yields what adds attributes."""
    if _provider is None:
        yield _say_nothing
        return
    with _provider.get_tracer("dataprep").start_as_current_span(name, attributes=_named(attributes)) as current:
        yield lambda **more: current.set_attributes(_named(more))


def _say_nothing(**_: str | int | None) -> None:
    """What adds attributes to no span."""


def _named(attributes: Mapping[str, str | int | None]) -> dict[str, str | int]:
    return {f"{_PREFIX}{name}": value for name, value in attributes.items() if value is not None}
