"""A small web server for files, whose optional features, such as ranges, can be switched off."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import pytest
from tests.converter.stores.loopback import Quiet, served


@dataclass
class Site:
    """A small web server. Its features and its files can be changed at any time."""

    files: dict[str, bytes] = field(default_factory=dict)
    tags: bool = True
    dates: bool = True
    """Whether responses without a tag have a date."""
    ranges: bool = True
    head: bool = True
    sizes: bool = True
    refusals: dict[str, int] = field(default_factory=dict)
    """Maps a path to the status with which the server refuses it."""
    seen: list[str] = field(default_factory=list)
    """`METHOD path range` of each request."""
    port: int = 0

    def at(self, path: str) -> str:
        return f"http://127.0.0.1:{self.port}{path}"


class _Handler(Quiet):
    site: Site
    protocol_version = "HTTP/1.1"

    def do_HEAD(self) -> None:  # noqa: N802 - the base class's name
        self._answer(with_body=False)

    def do_GET(self) -> None:  # noqa: N802 - the base class's name
        self._answer(with_body=True)

    def _answer(self, *, with_body: bool) -> None:
        site = self.site
        site.seen.append(f"{self.command} {self.path} {self.headers.get('Range', '')}".strip())
        content = site.files.get(self.path)
        status = site.refusals.get(self.path, 200 if content is not None else 404)
        if not with_body and not site.head:
            status = 405
        if self.path == "/moved":
            self._send(302, b"", {"Location": "/rows.csv"}, with_body)
            return
        if status != 200 or content is None:
            self._send(status, b"no", {}, with_body)
            return
        headers = {"ETag": f'"{hash(content)}"'} if site.tags else {}
        if site.dates and not site.tags:
            headers["Last-Modified"] = "Wed, 21 Oct 2015 07:28:00 GMT"
        asked = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("Range", ""))
        if asked and site.ranges:
            first, last = int(asked[1]), min(int(asked[2]), len(content) - 1)
            headers["Content-Range"] = f"bytes {first}-{last}/{len(content)}"
            self._send(206, content[first : last + 1], headers, with_body)
        else:
            self._send(200, content, headers, with_body)

    def _send(self, status: int, body: bytes, headers: dict[str, str], with_body: bool) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        if self.site.sizes:
            self.send_header("Content-Length", str(len(body)))
        else:
            self.send_header("Connection", "close")
        self.end_headers()
        if with_body:
            self.wfile.write(body)


@contextmanager
def serving(files: dict[str, bytes]) -> Iterator[Site]:
    """Run a server for these files, which are keyed by path."""
    made = Site(files)
    with served(type("Handler", (_Handler,), {"site": made})) as made.port:
        yield made


@pytest.fixture
def site() -> Iterator[Site]:
    with serving({"/rows.csv": b"1,0\n2,1\n3,0\n", "/a%20b.csv?key=x": b"4,1\n"}) as made:
        yield made
