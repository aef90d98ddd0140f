"""The benchmark of scan pods: its proxy limits the speed of each connection, and its pods run like an Indexed Job's pods.

The measured figures are not tested.
"""

import json
import socket
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, cast

import pytest
from benchmarks.scan_pods import __main__ as scan_pods
from benchmarks.scan_pods import slow_proxy
from benchmarks.scan_pods.__main__ import Bench, Measured
from benchmarks.scan_pods.slow_proxy import SlowProxy

from dataprep_api.resources.job import DataPrepJob

CONTENT = bytes(range(256)) * 5000


class Clock:
    """A clock that advances only while threads sleep."""

    def __init__(self) -> None:
        self.seconds = 100.0
        self._lock = threading.Lock()

    def monotonic(self) -> float:
        return self.seconds

    def sleep(self, seconds: float) -> None:
        with self._lock:
            self.seconds += seconds


@pytest.fixture
def server() -> Iterator[int]:
    """Yields the port of a server. On each connection, the server sends the content as soon as it has received a byte."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            while True:
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                with connection:
                    connection.recv(1)
                    connection.sendall(CONTENT)

        thread = threading.Thread(target=serve)
        thread.start()
        yield listener.getsockname()[1]
        listener.shutdown(socket.SHUT_RDWR)
        thread.join()


def received(port: int) -> bytes:
    with socket.create_connection(("127.0.0.1", port)) as client:
        client.sendall(b"x")
        return b"".join(iter(lambda: client.recv(1 << 16), b""))


def test_a_connection_gets_all_bytes_at_its_speed(server: int, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    monkeypatch.setattr(slow_proxy, "time", clock)
    with SlowProxy(server, bytes_per_second=1000) as proxy:
        assert received(proxy.port) == CONTENT
        assert (proxy.most_sending, proxy.bytes) == (1, len(CONTENT))
        assert clock.seconds - 100 == pytest.approx(len(CONTENT) / 1000)
        proxy.reset()
        assert (proxy.most_sending, proxy.bytes) == (0, 0)


def test_as_many_pods_run_as_the_job_allows(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    meeting, running, most, indexes = threading.Barrier(2), 0, 0, list[str]()
    lock = threading.Lock()

    def pod(_: Bench, *arguments: str, environment: Mapping[str, str]) -> str:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
            indexes.append(environment["JOB_COMPLETION_INDEX"])
        meeting.wait(60)
        with lock:
            running -= 1
        assert arguments == ("scan", "--job", str(tmp_path / "job"), "--scan", "feed", "--parts", "6")
        return ""

    monkeypatch.setattr(Bench, "_pod", pod)
    nothing = cast("Any", None)
    Bench(tmp_path, nothing, nothing, {}, memory=1)._scan(tmp_path / "job", {"scan": "feed", "parts": 6}, 2)
    assert (most, sorted(indexes)) == (2, ["0", "1", "2", "3", "4", "5"])


def measured(pods: int, seconds: float) -> Measured:
    return Measured(pods, 8, listing=1, scan=seconds - 3, merge=2, cpu=3, connections=0.99, most_connections=4, run_id="1234")


@pytest.mark.parametrize(("pods", "seconds", "share"), [(1, 100, 1), (4, 25, 1), (4, 50, 0.5), (8, 12.5, 1)])
def test_a_speed_up_is_compared_with_a_linear_one(pods: int, seconds: float, share: float) -> None:
    assert measured(pods, seconds).of_linear(measured(1, 100)) == pytest.approx(share)


def test_a_row_has_the_seconds_of_each_step() -> None:
    row = scan_pods._shown(measured(4, 50), measured(1, 100))
    assert " ".join(row.split()) == "4 8 1.0 47.0 2.0 50.0 0.50 3.0 1.0 4"


@pytest.mark.parametrize("limits_requests", [False, True])
def test_the_job_is_one_that_the_api_accepts(limits_requests: bool) -> None:
    document = scan_pods._job(scan_pods._store(9000, limits_requests=limits_requests), 3)
    job = DataPrepJob.parse(json.loads(json.dumps(document)))
    assert job.spec.workers.parallelism == 3
    assert job.spec.stores is not None
    assert (job.spec.stores[0].requests_per_second is not None) is limits_requests
