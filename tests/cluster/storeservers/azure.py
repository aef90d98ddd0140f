"""Azure's own emulator, Azurite: Blob Storage's protocol with signatures and rights, from npm.

It has no data lake's folders and no tokens over plain http. Its requests here are signed by a few lines of their own, so that tests see what was
written without the store's client.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import shutil
import urllib.error
import urllib.parse
import urllib.request
from datetime import UTC, datetime, timedelta
from email.utils import formatdate
from pathlib import Path
from types import TracebackType
from typing import Self
from xml.etree import ElementTree as ET

from storeservers import cache
from storeservers.processes import Lifetime, ServerProcess, accepts_connections, free_ports

_PACKAGE = Path(__file__).parents[1] / "node" / "azurite"
_VERSION = "2023-11-03"
_READY_SECONDS = 60.0
_ANSWER_SECONDS = 60.0


def program() -> Path:
    """Return the server's script; the first call on a machine installs it."""
    key = cache.key_of(_PACKAGE / "package.json", _PACKAGE / "package-lock.json")
    return cache.entry(f"node-azurite-{key}", _install) / "node_modules" / "azurite" / "dist" / "src" / "blob" / "main.js"


def _install(into: Path) -> None:
    for name in ("package.json", "package-lock.json"):
        shutil.copy(_PACKAGE / name, into)
    # Its optional parts are for a database that no test uses.
    cache.build(["npm", "ci", "--ignore-scripts", "--omit=dev", "--omit=optional", "--no-audit", "--no-fund"], cwd=into)


class AzureServer:
    """Azurite with one account on one address; `with` starts and stops it."""

    def __init__(
        self,
        run_dir: Path,
        *,
        host: str = "127.0.0.1",
        account: str = "testaccount",
        lifetime: Lifetime = Lifetime.WITH_STARTER,
    ) -> None:
        self.run_dir = run_dir.absolute()
        self.host = host
        self.account = account
        self.key = base64.b64encode(b"guards nothing but test data").decode()
        self._lifetime = lifetime
        [self.port] = free_ports(host, count=1)
        self._process: ServerProcess | None = None

    @property
    def endpoint(self) -> str:
        """The account's address for clients."""
        return f"http://{self.host}:{self.port}/{self.account}"

    @property
    def process(self) -> ServerProcess:
        """The running server."""
        if self._process is None:
            raise RuntimeError("Azurite is not running; call start() first.")
        return self._process

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.stop()

    def start(self) -> None:
        """Start the server, on its old data if it ran before, and wait until it answers."""
        try:
            self.launch()
            self.wait_until_ready()
        except BaseException:
            self.stop()
            raise

    def launch(self) -> None:
        """Start the server and don't wait."""
        data = self.run_dir / "data"
        data.mkdir(parents=True, exist_ok=True)
        self._process = ServerProcess.start(
            "azurite",
            [
                *("node", str(program()), "--disableTelemetry", "--silent"),
                *("--blobHost", self.host, "--blobPort", str(self.port), "--location", str(data)),
            ],
            log=self.run_dir / "logs" / "azurite.log",
            environment={"AZURITE_ACCOUNTS": f"{self.account}:{self.key}"},
            lifetime=self._lifetime,
        )

    def wait_until_ready(self) -> None:
        """Wait until the server accepts connections."""
        self.process.wait_until(lambda: accepts_connections(self.host, self.port), seconds=_READY_SECONDS)

    def stop(self) -> None:
        """End the server; its data stay in the run folder."""
        if self._process is not None:
            self._process.kill()
            self._process = None

    def make_container(self, container: str) -> None:
        """Make an empty container."""
        self.request("PUT", container, query={"restype": "container"})

    def keys(self, container: str, prefix: str = "") -> list[str]:
        """Return the names of a container's blobs."""
        found: list[str] = []
        query = {"restype": "container", "comp": "list", "prefix": prefix}
        while True:
            page = ET.fromstring(self.request("GET", container, query=query))  # noqa: S314  # the server is a test's own
            found += [each.text or "" for each in page.iterfind("Blobs/Blob/Name")]
            query["marker"] = page.findtext("NextMarker") or ""
            if not query["marker"]:
                return sorted(found)

    def read(self, container: str, key: str) -> bytes:
        """Return a blob's content."""
        return self.request("GET", f"{container}/{key}")

    def shared_access(self, permissions: str, *, days: int = 1) -> str:
        """Return a signature for the account that allows these: letters of `rwdlac`."""
        expiry = (datetime.now(UTC) + timedelta(days=days)).strftime("%Y-%m-%dT%H:%M:%SZ")
        text = f"{self.account}\n{permissions}\nb\nsco\n\n{expiry}\n\n\n{_VERSION}\n\n"
        fields = {"sv": _VERSION, "ss": "b", "srt": "sco", "sp": permissions, "se": expiry, "sig": self._signature(text)}
        return urllib.parse.urlencode(fields)

    def request(self, method: str, path: str, *, query: dict[str, str] | None = None, body: bytes = b"") -> bytes:
        """Send one signed request; return the answer's body."""
        asked = {name: value for name, value in (query or {}).items() if value}
        headers = {"x-ms-date": formatdate(usegmt=True), "x-ms-version": _VERSION}
        encoded = urllib.parse.quote(f"/{self.account}/{path}", safe="/-_.~")
        canonical = [*(f"{name}:{value}" for name, value in sorted(headers.items())), f"/{self.account}{encoded}"]
        canonical += [f"{name}:{value}" for name, value in sorted(asked.items())]
        # Eleven lines of headers, of which none is sent but the length.
        standard = ["", "", str(len(body)) if body else "", *[""] * 8]
        text = "\n".join([method, *standard, *canonical])
        headers["authorization"] = f"SharedKey {self.account}:{self._signature(text)}"
        url = f"http://{self.host}:{self.port}{encoded}?{urllib.parse.urlencode(asked, quote_via=urllib.parse.quote)}"
        made = urllib.request.Request(url, data=body if method == "PUT" else None, method=method, headers=headers)
        made.add_unredirected_header("Content-type", "")
        try:
            with urllib.request.urlopen(made, timeout=_ANSWER_SECONDS) as answer:  # noqa: S310  # as above
                content: bytes = answer.read()
                return content
        except urllib.error.HTTPError as exc:
            with exc:
                raise RuntimeError(f"{method} {path}: {exc.code}: {exc.read().decode(errors='replace')}") from exc

    def _signature(self, text: str) -> str:
        digest = hmac.digest(base64.b64decode(self.key), text.encode(), hashlib.sha256)
        return base64.b64encode(digest).decode()
