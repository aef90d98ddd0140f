"""Checks that damaged responses from a MaxCompute service yield the right rows, or an error that names the table, but never wrong rows.

Rows come in chunks with checksums, so wrong rows are noticed. Descriptions of sessions are JSON without checksums, so for these only the
error is checked.
"""

import os
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pytest
from tests.converter.readers.numbered_tables import T, a_source, numbered, values
from tests.fuzz.damage import damaged

from dataprep_converter.core.errors import ConvertError
from dataprep_converter.runtime.retry import with_deadline
from storeservers.odps import FakeMaxCompute, server, wire

ROUNDS: Final = int(os.environ.get("FUZZ", "12"))
ROWS: Final = 120
WHOLE: Final = [{"id": number, "x": number / 2} for number in range(ROWS)]


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeMaxCompute]:
    monkeypatch.setattr("odps.tunnel.retry.time.sleep", lambda _: None)
    with FakeMaxCompute() as made, with_deadline(seconds=0):
        monkeypatch.setenv("ODPS_ENDPOINT", made.endpoint)
        # Set the tunnel's address. Otherwise the client would request it, and a damaged response could name another machine.
        monkeypatch.setenv("ODPS_TUNNEL_ENDPOINT", made.tunnel_endpoint)
        monkeypatch.setenv("ODPS_ACCESS_ID", made.access_id)
        monkeypatch.setenv("ODPS_ACCESS_KEY", made.secret)
        numbered(made, ROWS)
        yield made


@pytest.mark.timeout(60 + 2 * ROUNDS)
@pytest.mark.parametrize("lasting", [False, True], ids=["one answer", "every answer"])
def test_damaged_rows_are_read_again_or_raise_an_error(fake: FakeMaxCompute, monkeypatch: pytest.MonkeyPatch, lasting: bool) -> None:
    whole, ended = wire.sent, 0
    for number in range(ROUNDS):
        rng = np.random.default_rng([number, lasting])
        left = [int(rng.integers(3))]

        def sent(batches: Iterable[pa.RecordBatch], rng: np.random.Generator = rng, left: list[int] = left) -> Iterator[bytes]:
            content = b"".join(whole(batches))
            left[0] -= 1
            yield damaged(content, rng) if left[0] < 0 and (lasting or left[0] == -1) else content

        monkeypatch.setattr(wire, "sent", sent)
        found = rows_or_error()
        assert found is None or found == WHOLE, f"round {number}: other rows than those of the table"
        ended += found is None
    assert fake.controls.log
    assert ended or not lasting


@pytest.mark.timeout(60 + 2 * ROUNDS)
def test_a_damaged_description_raises_a_dataprep_error(fake: FakeMaxCompute, monkeypatch: pytest.MonkeyPatch) -> None:
    answer, ended = server._answer, 0
    for number in range(ROUNDS):
        rng = np.random.default_rng(number)

        def damages(*given: Any, rng: np.random.Generator = rng, **more: Any) -> server.Answer:
            made = answer(*given, **more)
            return replace(made, body=damaged(made.body, rng)) if isinstance(made.body, bytes) else made

        monkeypatch.setattr(server, "_answer", damages)
        ended += rows_or_error() is None
    assert fake.controls.log
    assert ended


def rows_or_error() -> list[dict[str, Any]] | None:
    """All rows, or None after an error that names the table."""
    try:
        return values(a_source())
    except ConvertError as exc:
        said = str(exc)
    assert T in said
    return None
