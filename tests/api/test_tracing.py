"""Traces: if tracing is on, spans contain the names of the job and the run. If tracing is off, OpenTelemetry isn't imported."""

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from tests.operator.world import World

from dataprep_api import tracing

JOB = """
apiVersion: dataprep.io/v1alpha1
kind: DataPrepJob
metadata: {name: traced}
spec:
  source: {csv: {uris: [rows.csv], columns: [{name: x, type: Int64}]}}
  output: {uri: out}
"""


@pytest.fixture
def spans() -> Iterator[InMemorySpanExporter]:
    exporter = InMemorySpanExporter()
    tracing.set_up("test", processor=SimpleSpanProcessor(exporter))
    yield exporter
    tracing.shut_down()


def test_a_span_has_its_attributes_and_the_later_ones(spans: InMemorySpanExporter) -> None:
    with tracing.span("plan", job="photos", run_id=None) as tell:
        tell(run_id="0123", tasks=4)

    (span,) = spans.get_finished_spans()
    assert (span.name, dict(span.attributes or {})) == ("plan", {"dataprep.job": "photos", "dataprep.run_id": "0123", "dataprep.tasks": 4})


def test_an_exception_is_noted_and_goes_on(spans: InMemorySpanExporter) -> None:
    with pytest.raises(KeyError), tracing.span("work"):
        raise KeyError("gone")

    (span,) = spans.get_finished_spans()
    assert [event.name for event in span.events] == ["exception"]
    assert not span.status.is_ok


def test_each_look_of_the_operator_is_a_span(spans: InMemorySpanExporter) -> None:
    world = World()
    world.running()

    last = dict(spans.get_finished_spans()[-1].attributes or {})
    assert last == {
        "dataprep.job": "mnist",
        "dataprep.namespace": "team-a",
        "dataprep.phase": "Running",
        "dataprep.run_id": "0123abcd",
        "dataprep.attempt": 1,
    }


def test_without_an_endpoint_nothing_is_imported_and_nothing_happens() -> None:
    code = (
        "import sys; from dataprep_api import tracing; tracing.set_up('x');\n"
        "with tracing.span('a', job='b') as tell: tell(run_id='c')\n"
        "tracing.shut_down(); assert not [name for name in sys.modules if name.startswith('opentelemetry')]"
    )
    bare = {name: value for name, value in os.environ.items() if not name.startswith("OTEL_")}
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60, env=bare)


@pytest.mark.parametrize(
    ("environ", "wanted"),
    [
        ({}, False),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4318"}, True),
        ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://c:4318/v1/traces"}, True),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4318", "OTEL_SDK_DISABLED": "TRUE"}, False),
    ],
    ids=["nothing", "an endpoint", "one for traces", "disabled"],
)
def test_the_environment_decides(environ: dict[str, str], wanted: bool) -> None:
    assert tracing.is_requested(environ) is wanted


def test_a_missing_package_is_told_and_stops_nothing(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk.trace", None)
    tracing.set_up("x")
    assert "pip install 'dataprep-operator[tracing]'" in caplog.text
    with tracing.span("a"):
        pass


@pytest.mark.slow
def test_a_step_s_span_reaches_a_collector(tmp_path: Path) -> None:
    received: list[bytes] = []

    class Collector(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            assert self.path == "/v1/traces"
            received.append(self.rfile.read(int(self.headers["Content-Length"])))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            pass

    (tmp_path / "job.yaml").write_text(JOB)
    (tmp_path / "rows.csv").write_text("1\n2\n3\n")
    with HTTPServer(("127.0.0.1", 0), Collector) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        asked = {
            "OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{server.server_port}",
            "OTEL_EXPORTER_OTLP_COMPRESSION": "none",
            "NO_PROXY": "127.0.0.1",
        }
        command = [sys.executable, "-m", "dataprep_converter", "plan", "job.yaml"]
        subprocess.run(command, cwd=tmp_path, env=os.environ | asked, check=True, capture_output=True, timeout=120)
        server.shutdown()

    (request,) = [ExportTraceServiceRequest.FromString(each) for each in received]
    (resource,) = request.resource_spans
    assert ("service.name", "dataprep") in {(each.key, each.value.string_value) for each in resource.resource.attributes}
    (span,) = resource.scope_spans[0].spans
    told = {each.key: each.value.string_value or each.value.int_value for each in span.attributes}
    assert span.name == "plan"
    assert (told["dataprep.job"], told["dataprep.records"], len(str(told["dataprep.run_id"]))) == ("traced", 3, 16)
