"""Events reach a receiver. A receiver that doesn't respond causes neither a failure nor a delay."""

import subprocess
import sys
import threading

import pytest
from tests.builders.lineage_receiver import lineage_receiver

from dataprep_api.lineage import sending
from dataprep_api.lineage.events import Parent

EVENT = {"eventType": "START"}


@pytest.fixture(autouse=True)
def without_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("no_proxy", "127.0.0.1")


@pytest.mark.parametrize(
    ("environ", "wanted"),
    [
        ({}, None),
        ({"OPENLINEAGE_URL": "http://host:5000", "OPENLINEAGE_DISABLED": "True"}, None),
        ({"OPENLINEAGE_URL": "http://host:5000"}, sending.Receiver("http://host:5000")),
        (
            {"OPENLINEAGE_URL": "http://host", "OPENLINEAGE_ENDPOINT": "lineage", "OPENLINEAGE_API_KEY": "k", "OPENLINEAGE_NAMESPACE": "n"},
            sending.Receiver("http://host", endpoint="lineage", key="k", namespace="n"),
        ),
        (
            {
                "OPENLINEAGE__TRANSPORT__TYPE": "http",
                "OPENLINEAGE__TRANSPORT__URL": "https://host",
                "OPENLINEAGE__TRANSPORT__ENDPOINT": "e",
                "OPENLINEAGE__TRANSPORT__AUTH": '{"type": "api_key", "apiKey": "k"}',
            },
            sending.Receiver("https://host", endpoint="e", key="k"),
        ),
        (
            {"OPENLINEAGE_URL": "http://host", "OPENLINEAGE_PARENT_ID": "a/b/job/01234567-0123-4123-8123-0123456789ab"},
            sending.Receiver("http://host", parent=Parent("a/b", "job", "01234567-0123-4123-8123-0123456789ab")),
        ),
    ],
    ids=["nothing", "disabled", "a URL", "all variables", "the transport's variables", "a parent"],
)
def test_the_environment_names_the_receiver(environ: dict[str, str], wanted: sending.Receiver | None) -> None:
    assert sending.receiver(environ) == wanted


@pytest.mark.parametrize(
    ("environ", "said"),
    [
        (
            {"OPENLINEAGE_URL": "file:///etc/passwd"},
            "expected an http or https address without a user for OPENLINEAGE_URL, got file:///etc/passwd",
        ),
        ({"OPENLINEAGE_URL": "http://[host"}, "expected an http or https address"),
        (
            {"OPENLINEAGE_URL": "https://me:secret@host"},
            "expected an http or https address without a user for OPENLINEAGE_URL, got https://…@host",
        ),
        ({"OPENLINEAGE__TRANSPORT__TYPE": "kafka"}, "expected http for OPENLINEAGE__TRANSPORT__TYPE, got kafka"),
    ],
)
def test_invalid_settings_send_nothing_and_are_told(environ: dict[str, str], said: str, caplog: pytest.LogCaptureFixture) -> None:
    assert sending.receiver(environ) is None
    assert said in caplog.text


def test_an_invalid_parent_or_key_is_left_out_and_told(caplog: pytest.LogCaptureFixture) -> None:
    environ = {"OPENLINEAGE_URL": "http://h", "OPENLINEAGE_PARENT_ID": "job/7", "OPENLINEAGE__TRANSPORT__AUTH": "secret"}
    assert sending.receiver(environ) == sending.Receiver("http://h")
    assert "expected <namespace>/<job>/<UUID of the run> for OPENLINEAGE_PARENT_ID, got job/7" in caplog.text
    assert "expected {" in caplog.text
    assert "secret" not in caplog.text


def test_events_arrive_in_order_with_the_key() -> None:
    with lineage_receiver() as received:
        sender = sending.Sender(sending.Receiver(received.url, key="k"))
        sender.send({"eventType": "START"})
        sender.send({"eventType": "COMPLETE"})
        sender.close()
    assert received.kinds == ["START", "COMPLETE"]
    assert set(received.paths) == {"/api/v1/lineage"}
    assert set(received.keys) == {"Bearer k"}


def test_a_refusal_is_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    with lineage_receiver(status=401) as received:
        sender = sending.Sender(sending.Receiver(received.url, key="secret"))
        sender.send(EVENT)
        sender.close()
    assert f"a lineage event (START) was not delivered to {received.url}: HTTP Error 401" in caplog.text
    assert "secret" not in caplog.text


def test_a_receiver_that_is_away_is_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    with lineage_receiver() as received:
        pass
    sender = sending.Sender(sending.Receiver(received.url))
    sender.send(EVENT)
    sender.close()
    assert "was not delivered to http://127.0.0.1" in caplog.text


def test_a_silent_receiver_is_given_up(caplog: pytest.LogCaptureFixture) -> None:
    with lineage_receiver(silent=threading.Event()) as received:
        sender = sending.Sender(sending.Receiver(received.url), request_seconds=30, close_seconds=0.05)
        sender.send(EVENT)
        sender.close()
        assert f"lineage events were not delivered within 0 s: {received.url} doesn't answer" in caplog.text


def test_each_request_has_a_time_limit(caplog: pytest.LogCaptureFixture) -> None:
    with lineage_receiver(silent=threading.Event()) as received:
        sender = sending.Sender(sending.Receiver(received.url), request_seconds=0.05, close_seconds=30)
        sender.send(EVENT)
        sender.close()
    assert "timed out" in caplog.text


def test_a_sender_without_events_starts_no_thread() -> None:
    before = set(threading.enumerate())
    sending.Sender(sending.Receiver("http://127.0.0.1:9")).close()
    assert "lineage" not in {thread.name for thread in set(threading.enumerate()) - before}


def test_importing_it_loads_no_client() -> None:
    code = "import sys; from dataprep_api.lineage import sending; sending.receiver({}); print('urllib.request' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], check=True, timeout=60, capture_output=True, text=True)
    assert done.stdout == "False\n"
