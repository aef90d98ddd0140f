"""Lost responses: the server carries out a request, but the client never gets the response."""

from collections.abc import Callable, Mapping

import pytest

from dataprep_converter.stores.store_requests import Answer, Requests


def lose_answers(monkeypatch: pytest.MonkeyPatch, *, of: Callable[[str, Mapping[str, str]], bool], times: int = 1) -> None:
    """Lose the responses to the first `times` requests for which `of(method, query)` is true."""
    lost: list[int] = []
    real = Requests._send_once

    def send_once(
        self: Requests, method: str, key: str, *, query: Mapping[str, str], headers: Mapping[str, str], body: bytes | memoryview
    ) -> Answer:
        answer = real(self, method, key, query=query, headers=headers, body=body)
        if of(method, query) and len(lost) < times:
            lost.append(1)
            raise ConnectionResetError("the answer is lost")
        return answer

    monkeypatch.setattr(Requests, "_send_once", send_once)
