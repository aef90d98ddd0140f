"""Azure's own emulator, Azurite, from npm: the Blob Storage protocol with signatures and permissions.

Azurite supports neither Data Lake folders nor tokens over plain http. Requests are signed here independently, so that tests can inspect
what was written without using the client under test.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from email.utils import formatdate
from pathlib import Path
from xml.etree import ElementTree as ET

from storeservers import npm
from storeservers.processes import Lifetime
from storeservers.servers import OneServer

_VERSION = "2023-11-03"
_ANSWER_SECONDS = 60.0


def program() -> Path:
    """Return the server's script; the first call on a machine installs it."""
    return npm.script("azurite", "azurite/dist/src/blob/main.js")


class AzureServer(OneServer):
    """Azurite with one account."""

    name = "azurite"

    def __init__(
        self,
        run_dir: Path,
        *,
        host: str = "127.0.0.1",
        account: str = "testaccount",
        lifetime: Lifetime = Lifetime.WITH_STARTER,
    ) -> None:
        super().__init__(run_dir, host=host, lifetime=lifetime)
        self.account = account
        self.key = base64.b64encode(b"guards nothing but test data").decode()

    @property
    def endpoint(self) -> str:
        """The account's address for clients."""
        return f"http://{self.host}:{self.port}/{self.account}"

    def launch(self) -> None:
        data = self.run_dir / "data"
        data.mkdir(parents=True, exist_ok=True)
        self._launch(
            [
                *("node", str(program()), "--disableTelemetry", "--silent"),
                *("--blobHost", self.host, "--blobPort", str(self.port), "--location", str(data)),
            ],
            environment={"AZURITE_ACCOUNTS": f"{self.account}:{self.key}"},
        )

    def make_container(self, container: str, *, public: bool = False) -> None:
        """Create an empty container. Anyone may list and read a public container."""
        self.request("PUT", container, query={"restype": "container"}, extra={"x-ms-blob-public-access": "container"} if public else {})

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
        """Return a signature for the account with these permissions (letters of `rwdlac`)."""
        expiry = _in(days)
        text = f"{self.account}\n{permissions}\nb\nsco\n\n{expiry}\n\n\n{_VERSION}\n\n"
        fields = {"sv": _VERSION, "ss": "b", "srt": "sco", "sp": permissions, "se": expiry, "sig": self._signature(text)}
        return urllib.parse.urlencode(fields)

    def set_policy(self, container: str, name: str, permissions: str) -> None:
        """Set the container's only access policy, which is valid for a day.

        A signature that refers to the policy grants the policy's permissions.
        """
        allowed = f"<AccessPolicy><Expiry>{_in(days=1)}</Expiry><Permission>{permissions}</Permission></AccessPolicy>"
        document = f"<SignedIdentifiers><SignedIdentifier><Id>{name}</Id>{allowed}</SignedIdentifier></SignedIdentifiers>"
        self.request("PUT", container, query={"comp": "acl", "restype": "container"}, body=document.encode())

    def shared_access_by(self, container: str, policy: str) -> str:
        """Return a signature for the container, with the permissions that the policy grants at the time of a request."""
        text = f"\n\n\n/blob/{self.account}/{container}\n{policy}\n\n\n{_VERSION}\nc\n\n\n\n\n\n\n"
        fields = {"sv": _VERSION, "sr": "c", "si": policy, "sig": self._signature(text)}
        return urllib.parse.urlencode(fields)

    def request(
        self, method: str, path: str, *, query: dict[str, str] | None = None, body: bytes = b"", extra: Mapping[str, str] | None = None
    ) -> bytes:
        """Send a signed request, with extra `x-ms-` headers; return the response body."""
        asked = {name: value for name, value in (query or {}).items() if value}
        headers = {"x-ms-date": formatdate(usegmt=True), "x-ms-version": _VERSION, **(extra or {})}
        encoded = urllib.parse.quote(f"/{self.account}/{path}", safe="/-_.~")
        canonical = [*(f"{name}:{value}" for name, value in sorted(headers.items())), f"/{self.account}{encoded}"]
        canonical += [f"{name}:{value}" for name, value in sorted(asked.items())]
        # The signed text has eleven standard headers. Only one of them, the length, is sent.
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


def _in(days: int) -> str:
    """The time `days` days from now, in the service's format."""
    return (datetime.now(UTC) + timedelta(days=days)).strftime("%Y-%m-%dT%H:%M:%SZ")
