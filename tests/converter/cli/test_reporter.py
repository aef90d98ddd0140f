"""Progress reports: the content that a worker sends, the addresses, and the delays between attempts."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from dataprep_api.dataset.messages import PlanResult
from dataprep_converter.cli.reporter import Reporter
from dataprep_converter.pipeline.task_progress import TaskProgress
from dataprep_converter.runtime.request_budget import RequestBudget


class Leader(HTTPServer):
    """A server that responds with these status codes, one after the other, and keeps the reports that it received."""

    def __init__(self, codes: list[int]) -> None:
        super().__init__(("127.0.0.1", 0), Asked)
        self.codes = codes
        self.said: dict[str, object] = {}
        """Additional fields for the server's responses."""
        self.reports: list[dict[str, object]] = []
        self.tokens: list[str | None] = []


class Asked(BaseHTTPRequestHandler):
    server: Leader

    def do_POST(self) -> None:
        self.server.tokens.append(self.headers["Authorization"])
        self.server.reports.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        body = json.dumps({"nextReportSeconds": 7.5, "whatANewerOneSays": 1} | self.server.said).encode()
        self.send_response(self.server.codes.pop(0))
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Logs nothing."""


@contextmanager
def leader(codes: list[int]) -> Iterator[Leader]:
    with Leader(codes) as server:
        serving = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        serving.start()
        try:
            yield server
        finally:
            server.shutdown()
            serving.join()


@pytest.fixture
def token(tmp_path: Path) -> Path:
    path = tmp_path / "token"
    path.write_text("a.b.c\n")
    return path


def environment(server: Leader, token: Path) -> dict[str, str]:
    return {
        "DATAPREP_STATUS_URL": f"http://127.0.0.1:{server.server_port}",
        "DATAPREP_STATUS_TOKEN_FILE": str(token),
        "DATAPREP_JOB_NAME": "mnist",
        "DATAPREP_ATTEMPT": "2",
    }


def test_a_report_that_fails_is_sent_again_soon_and_later_less_often(token: Path) -> None:
    with leader([503, 503, 503, 503, 503, 200, 503]) as server:
        reporter = Reporter(index=3, environment=environment(server, token))
        assert [reporter._send() for _ in range(7)] == [2.0, 4.0, 8.0, 10.0, 10.0, 7.5, 2.0]
    assert [report["sequence"] for report in server.reports] == [1, 2, 3, 4, 5, 6, 7]


def test_the_last_counts_are_sent_at_the_end(token: Path) -> None:
    with leader([200] * 9) as server:
        with Reporter(index=3, environment=environment(server, token)) as reporter:
            reporter.watch(TaskProgress(shards_done=2))
        last = server.reports[-1]
    assert (last["job"], last["attempt"], last["index"], last["shardsDone"]) == ("mnist", 2, 3, 2)
    assert set(server.tokens) == {"Bearer a.b.c"}


def test_the_pod_of_the_plan_step_also_reports_the_totals(token: Path) -> None:
    plan = PlanResult(run_id="r", plan_sha256="f" * 64, plan_uri="/p", tasks=4, shards=8, records=1000, bytes_in=1)
    with leader([200]) as server:
        reporter = Reporter(index=0, plan=plan, environment=environment(server, token))
        reporter.watch(TaskProgress(records_in=300, records_out=299, bad=1, shards_done=2))
        reporter._send()

    [report] = server.reports
    assert (report["shardsDone"], report["shardsTotal"]) == (2, 8)
    assert report["records"] == {"total": 1000, "in": 300, "out": 299, "bad": 1, "filtered": 0, "added": 0}


def test_the_reply_changes_the_rate_and_the_last_report_counts_no_requests(token: Path) -> None:
    budgets = {"0": RequestBudget(limit=5.0), "s3": RequestBudget()}
    budgets["0"].wait_turn()
    with leader([200, 200]) as server:
        server.said = {"requestsPerSecond": {"0": 2.0, "7": 1.0}}
        reporter = Reporter(index=3, budgets=budgets, environment=environment(server, token))
        reporter._send()
        reporter._send(is_last=True)

    first, last = (report.get("requests") for report in server.reports)
    assert isinstance(first, dict)
    assert set(first) == {"0"}, "only used stores are reported"
    assert first["0"] | {"seconds": 0} == {"seconds": 0, "sent": 1, "refused": 0, "isWaiting": False, "limit": 5.0}
    assert last is None
    assert budgets["0"].take_turn() > 0.2, "2 instead of 5 a second"


def test_an_operator_that_knows_no_shares_changes_no_rate(token: Path) -> None:
    budget = RequestBudget()
    budget.wait_turn()
    with leader([200]) as server:
        Reporter(index=3, budgets={"s3": budget}, environment=environment(server, token))._send()

    assert budget.take_turn() == 0


def test_without_an_address_there_are_no_reports(token: Path) -> None:
    with leader([]) as server:
        with Reporter(index=0, environment={**environment(server, token), "DATAPREP_STATUS_URL": ""}) as reporter:
            reporter.watch(TaskProgress(shards_done=1))
        assert server.reports == []
