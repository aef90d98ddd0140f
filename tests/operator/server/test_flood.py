"""While the operator's server is flooded, the Lease is still renewed, probes still get responses, and the flood costs little CPU time."""

import asyncio
import contextlib
import socket
import threading
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer
from tests.builders.leases import PATIENCE_SECONDS, Leases, an_election
from tests.builders.tokens import Keys, a_cache, a_token

from dataprep_api.dataset.messages import PROGRESS_PATH
from dataprep_operator import __main__ as program
from dataprep_operator.leadership import lease
from dataprep_operator.server import endpoint as endpoint_module
from dataprep_operator.server import gate
from dataprep_operator.server.endpoint import Endpoint
from dataprep_operator.server.gate import Gate
from dataprep_operator.server.probes import Health
from dataprep_operator.server.progress import ProgressStore
from dataprep_operator.server.tokens import Verifier
from dataprep_operator.settings import Settings

HEALTHZ = b"GET /healthz HTTP/1.1\r\nHost: operator\r\n\r\n"


@pytest.fixture(autouse=True)
def _often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lease, "RETRY_SECONDS", 0.01)


# --- the server -----------------------------------------------------------------------------------------------------------------------


def an_application(verifier: Verifier | None = None) -> web.Application:
    health = Health(age_limit_seconds=180, leading=True)
    verifier = verifier or Verifier(Keys().fetch)
    return Endpoint(cache=a_cache(), progress_store=ProgressStore(), verifier=verifier, health=health, enqueue=lambda _: None).application()


@contextlib.asynccontextmanager
async def listening(monkeypatch: pytest.MonkeyPatch, gated: Gate | None = None) -> AsyncIterator[tuple[str, int]]:
    """Run the operator's server on a free port."""
    monkeypatch.setattr(program, "Gate", lambda: gated or Gate())
    async with program._listen(an_application(), Settings(listen_host="127.0.0.1", listen_port=0)) as port:
        yield "127.0.0.1", port


async def asks(place: tuple[str, int], request: bytes, *, source: str = "127.0.0.1") -> bytes:
    """Send a request, and return the response, or an empty response if the connection is refused."""
    reader, writer = await asyncio.open_connection(*place, local_addr=(source, 0))
    try:
        writer.write(request)
        return await reader.read()
    except ConnectionError:
        return b""
    finally:
        writer.close()


@pytest.fixture
def flooding() -> Iterator[Any]:  # Any: a function that takes the address
    """Start threads that open connections as fast as they can. A connection sends no data, half a request, or a forged token."""
    stop, threads = threading.Event(), list[threading.Thread]()
    requests = [b"", b"POST /", f"POST {PROGRESS_PATH} HTTP/1.1\r\nAuthorization: Bearer a.b.c\r\nContent-Length: 2\r\n\r\n{{}}".encode()]

    def flood(place: tuple[str, int]) -> None:
        kept: list[socket.socket] = []
        while not stop.is_set():
            for request in requests:
                with contextlib.suppress(OSError):
                    kept.append(socket.create_connection(place, timeout=5))
                    kept[-1].sendall(request)
            while len(kept) > 100:
                kept.pop(0).close()
        for each in kept:
            each.close()

    def begin(place: tuple[str, int]) -> None:
        threads.extend(threading.Thread(target=flood, args=(place,)) for _ in range(3))
        for thread in threads:
            thread.start()

    yield begin
    stop.set()
    for thread in threads:
        thread.join()


@pytest.mark.slow
def test_who_floods_the_server_keeps_neither_the_lease_from_being_renewed_nor_a_probe_from_its_answer(
    monkeypatch: pytest.MonkeyPatch, flooding: Any
) -> None:
    for name, limit in (("MOST_PER_ADDRESS", 32), ("PER_ADDRESS_A_SECOND", 50.0), ("PER_ADDRESS_AT_ONCE", 100)):
        monkeypatch.setattr(gate, name, limit)
    leases, lost, gated = Leases(), list[BaseException](), Gate()

    async def lives() -> None:
        tenure = an_election(leases, lost)
        await tenure.begin()
        async with listening(monkeypatch, gated) as place:
            await asyncio.get_running_loop().run_in_executor(None, flooding, place)
            while gated._count < gate.MOST_PER_ADDRESS:
                await asyncio.sleep(0.01)
            for _ in range(10):
                assert await asyncio.to_thread(leases.renewed.acquire, timeout=PATIENCE_SECONDS)
                assert (await asks(place, HEALTHZ, source="127.0.0.2")).startswith(b"HTTP/1.1 200 ")
                assert gated._count <= gate.MOST_PER_ADDRESS + 1
        assert tenure.is_leader
        await tenure.end()

    asyncio.run(lives())
    assert lost == []


def test_a_connection_is_one_request(monkeypatch: pytest.MonkeyPatch) -> None:
    async def lives() -> bytes:
        async with listening(monkeypatch) as place:
            return await asyncio.wait_for(asks(place, HEALTHZ * 3), PATIENCE_SECONDS)

    assert asyncio.run(lives()).count(b"HTTP/1.1 200 ") == 1


def test_a_connection_that_says_nothing_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gate, "LIFE_SECONDS", 0.05)

    async def lives() -> list[bytes]:
        async with listening(monkeypatch) as place:
            return [await asyncio.wait_for(asks(place, said), PATIENCE_SECONDS) for said in (b"", HEALTHZ[:-2])]

    assert asyncio.run(lives()) == [b"", b""]


# --- limits on connections ------------------------------------------------------------------------------------------------------------


class Line(asyncio.Transport):
    """A fake connection that can only be aborted."""

    def __init__(self) -> None:
        super().__init__()
        self.cut = False

    def abort(self) -> None:
        self.cut = True


def test_one_address_has_so_many_connections_at_a_time() -> None:
    own, lines = Gate(clock=lambda: 0.0), [Line() for _ in range(gate.MOST_PER_ADDRESS)]
    assert all(own.admit("a", line) for line in lines)
    assert not own.admit("a", Line())
    assert own.admit("b", Line())

    own.release("a", lines[3])
    assert own.admit("a", Line())


def test_one_address_has_so_many_connections_a_second() -> None:
    now = [0.0]
    own, line = Gate(clock=lambda: now[0]), Line()

    def comes_and_goes(address: str) -> bool:
        is_in = own.admit(address, line)
        own.release(address, line)
        return is_in

    assert [comes_and_goes("a") for _ in range(gate.PER_ADDRESS_AT_ONCE + 1)].count(True) == gate.PER_ADDRESS_AT_ONCE
    assert comes_and_goes("b")
    now[0] = 1 / gate.PER_ADDRESS_A_SECOND
    assert (comes_and_goes("a"), comes_and_goes("a")) == (True, False)


def test_when_all_places_are_taken_who_has_most_gives_one() -> None:
    own = Gate(clock=lambda: 0.0)
    lines = {address: [Line() for _ in range(gate.MOST_PER_ADDRESS)] for address in "ab"}
    assert all(own.admit(address, line) for address, each in lines.items() for line in each)

    assert own.admit("kubelet", Line())
    assert [line.cut for line in lines["a"]] == [True] + [False] * (gate.MOST_PER_ADDRESS - 1)
    assert own._count == gate.MOST
    # The aborted connection reports its end only later. The gate must not count this end a second time.
    own.release("a", lines["a"][0])
    assert own._count == gate.MOST


def test_addresses_are_forgotten() -> None:
    own, line = Gate(clock=lambda: 0.0), Line()
    for number in range(5000):
        own.admit(str(number), line)
        own.release(str(number), line)
    assert len(own._limiters) <= 4096
    assert own._open_connections == {}


# --- limits on reports ----------------------------------------------------------------------------------------------------------------


def test_signatures_are_checked_of_so_many_reports_a_second(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(endpoint_module, "MOST_REPORTS_AT_ONCE", 5)
    monkeypatch.setattr(endpoint_module, "MOST_REPORTS_A_SECOND", 1e-9)
    checked = []

    class Counting(Verifier):
        async def bearer(self, token: str) -> Any:  # Any: a Bearer
            checked.append(token)
            return await super().bearer(token)

    async def lives() -> list[int]:
        async with TestClient(TestServer(an_application(Counting(Keys().fetch)))) as client:
            answers = []
            for _ in range(8):
                async with client.post(PROGRESS_PATH, data=b"{}", headers={"Authorization": f"Bearer {a_token()}"}) as response:
                    answers.append(response.status)
            return answers

    assert asyncio.run(lives()) == [400] * 5 + [429] * 3
    assert len(checked) == 5


def test_the_metrics_are_made_once_a_second_whoever_asks() -> None:
    async def lives() -> None:
        made = []
        endpoint = Endpoint(
            cache=a_cache(),
            progress_store=ProgressStore(),
            verifier=Verifier(Keys().fetch),
            health=Health(age_limit_seconds=180),
            enqueue=lambda _: None,
        )
        endpoint._render_metrics = lambda: made.append("made") or b"# metrics\n"  # type: ignore[method-assign,func-returns-value]  # counts the calls
        request: Any = None
        bodies = [(await endpoint._metrics(request)).body for _ in range(20)]
        assert bodies == [b"# metrics\n"] * 20
        assert len(made) <= 2

    asyncio.run(lives())
