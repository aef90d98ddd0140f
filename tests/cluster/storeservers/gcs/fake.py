"""Starts the fake in its own process, creates its service account and inspects what was written."""

from __future__ import annotations

import json
import sys
import urllib.parse
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from xml.etree import ElementTree as ET

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from storeservers.processes import Lifetime
from storeservers.servers import OneServer

_SOURCES = Path(__file__).parents[2]
_ANSWER_SECONDS = 60.0
_ADMINISTRATOR = "of-the-tests"


class FakeGcs(OneServer):
    """A fake of Cloud Storage. It is empty after each start."""

    name = "fake-gcs"

    def __init__(self, run_dir: Path, *, host: str = "127.0.0.1", lifetime: Lifetime = Lifetime.WITH_STARTER) -> None:
        super().__init__(run_dir, host=host, lifetime=lifetime)
        self._key = rsa.generate_private_key(public_exponent=65537, key_size=2048)

    @property
    def service_account_key(self) -> str:
        """A service account key in Google's JSON format. Its tokens have all rights on this fake."""
        private = self._key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        ).decode()
        return json.dumps(
            {
                "type": "service_account",
                "project_id": "project",
                "private_key_id": "1",
                "private_key": private,
                "client_email": "tests@project.iam.gserviceaccount.com",
                "client_id": "1",
                "token_uri": f"{self.endpoint}/token",
            }
        )

    def launch(self) -> None:
        data = self.run_dir / "data"
        data.mkdir(parents=True, exist_ok=True)
        public = self._key.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
        (data / "public.pem").write_bytes(public)
        self.allow()
        self._launch(
            [sys.executable, "-m", "storeservers.gcs.service", "--host", self.host, "--port", str(self.port), "--dir", str(data)],
            environment={"PYTHONPATH": str(_SOURCES)},
        )

    def allow(self, rights: Sequence[str] = ("*",)) -> None:
        """Limits the rights of all tokens of the service account: those made with its key and those from the node."""
        tokens = {_ADMINISTRATOR: ["*"], "of-the-key": list(rights), "of-the-node": list(rights)}
        unfinished = self.run_dir / "data" / "tokens.unfinished"
        unfinished.write_text(json.dumps(tokens))
        unfinished.rename(unfinished.with_name("tokens.json"))

    def make_bucket(self, bucket: str) -> None:
        """Create an empty bucket."""
        (self.run_dir / "data" / "buckets" / bucket).mkdir(parents=True)

    def keys(self, bucket: str, prefix: str = "") -> list[str]:
        """Return the bucket's keys."""
        found: list[str] = []
        token = ""
        while True:
            query = {"list-type": "2", "prefix": prefix} | ({"continuation-token": token} if token else {})
            page = self._ask(bucket, query)
            found += [each.text or "" for each in page.iterfind("{*}Contents/{*}Key")]
            token = page.findtext("{*}NextContinuationToken") or ""
            if not token:
                return sorted(found)

    def uploads(self, bucket: str) -> list[str]:
        """Return the keys of multipart uploads that are neither completed nor aborted."""
        return [each.text or "" for each in self._ask(bucket, {"uploads": ""}).iterfind("Upload/Key")]

    def _ask(self, bucket: str, query: dict[str, str]) -> ET.Element:
        request = urllib.request.Request(  # noqa: S310  # our own server's address
            f"{self.endpoint}/{bucket}?{urllib.parse.urlencode(query)}", headers={"Authorization": f"Bearer {_ADMINISTRATOR}"}
        )
        with urllib.request.urlopen(request, timeout=_ANSWER_SECONDS) as answer:  # noqa: S310  # as above
            return ET.fromstring(answer.read())  # noqa: S314  # our own server's response
