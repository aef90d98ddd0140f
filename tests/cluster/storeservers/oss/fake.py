"""Starts the fake in its own process and controls it."""

from __future__ import annotations

import json
import sys
import urllib.error
import urllib.request
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from storeservers.oss.controls import PREFIX, Fault, LoggedRequest
from storeservers.oss.signatures import AccessKey
from storeservers.processes import Lifetime, free_ports
from storeservers.servers import READY_SECONDS, OneServer

_SOURCES = Path(__file__).parents[2]
_ANSWER_SECONDS = 60.0


@dataclass(frozen=True)
class OssEntry:
    """An object as reported by the fake."""

    key: str
    size: int
    etag: str
    crc64: int
    kind: str
    headers: dict[str, str]
    path: Path
    """The file that holds its content."""


@dataclass(frozen=True)
class OssUpload:
    """An unfinished multipart upload."""

    key: str
    upload_id: str
    part_sizes: dict[int, int]


class FakeOss(OneServer):
    """A fake of OSS. After a start only the first key is set up; all other controls are reset.

    It implements the documented protocol and has never been compared with the real service. Two deliberate differences: path style works,
    although real OSS requires virtual hosts, and AppendObject is rejected.
    """

    name = "fake-oss"

    def __init__(
        self,
        run_dir: Path,
        *,
        host: str = "127.0.0.1",
        access_key: str = "test-access-key",
        secret_key: str = "test-secret-key",  # noqa: S107  # protects nothing but test data
        region: str = "cn-hangzhou",
        domain: str = "oss.test",
        lifetime: Lifetime = Lifetime.WITH_STARTER,
    ) -> None:
        super().__init__(run_dir, host=host, lifetime=lifetime)
        self.access_key = access_key
        self.secret_key = secret_key
        self.region = region
        self.domain = domain
        [self._control_port] = free_ports("127.0.0.1", count=1)

    @property
    def control_address(self) -> str:
        """The URL of the control interface, for this machine only."""
        return f"http://127.0.0.1:{self._control_port}{PREFIX}"

    # -- server -------------------------------------------------------------------------------------------------

    def launch(self) -> None:
        state = self.run_dir / "state.json"
        state.unlink(missing_ok=True)
        self._launch(
            [
                *(sys.executable, "-m", "storeservers.oss"),
                *("--host", self.host, "--port", str(self.port), "--control-port", str(self._control_port)),
                *("--dir", str(self.run_dir / "data"), "--state", str(state)),
                *("--region", self.region, "--domain", self.domain),
            ],
            environment={"PYTHONPATH": str(_SOURCES)},
        )

    def wait_until_ready(self) -> None:
        """Wait until the fake answers, and add the first key."""
        self.process.wait_until((self.run_dir / "state.json").exists, seconds=READY_SECONDS)
        super().wait_until_ready()
        self.add_key(AccessKey(self.access_key, self.secret_key))

    # -- controls -----------------------------------------------------------------------------------------------

    def make_bucket(self, bucket: str, *, versioning: str | None = None) -> None:
        """Create a bucket. Versioning is None, Enabled or Suspended; the fake doesn't keep versions.

        With versioning enabled or suspended, the header that forbids overwriting has no effect.
        """
        self._command("buckets", {"name": bucket, "versioning": versioning})

    def add_key(self, key: AccessKey) -> None:
        """Add a key, or change its secret, token and rights. Denied actions may have wildcards: `oss:List*`."""
        self._command("keys", {**asdict(key), "denied": sorted(key.denied)})

    def deny(self, *actions: str) -> None:
        """Deny the first key these actions; without actions, restore all its rights."""
        self.add_key(AccessKey(self.access_key, self.secret_key, denied=frozenset(actions)))

    def remove_key(self, access_key: str) -> None:
        """Remove a key."""
        self._command("keys/remove", {"access_key": access_key})

    def inject(self, fault: Fault) -> None:
        """Arm a fault."""
        self._command("faults", asdict(fault))

    def faults(self) -> list[Fault]:
        """Return the faults that are still armed."""
        return [Fault(**each) for each in self._state("faults")]

    def clear_faults(self) -> None:
        """Disarm all faults, and let the stalled requests continue."""
        self._command("faults/clear", {})

    def requests(self) -> list[LoggedRequest]:
        """Return the requests since the start or the last `clear_requests`."""
        return [LoggedRequest(**each) for each in self._state("requests")]

    def clear_requests(self) -> None:
        """Forget the requests so far."""
        self._command("requests/clear", {})

    # -- inspection --------------------------------------------------------------------------------------------

    def entries(self, bucket: str, prefix: str = "") -> list[OssEntry]:
        """Return the bucket's objects, sorted by key."""
        return [
            OssEntry(
                key=each["key"],
                size=each["content"]["size"],
                etag=each["etag"],
                crc64=each["content"]["crc64"],
                kind=each["kind"],
                headers=each["headers"],
                path=self.run_dir / "data" / bucket / "content" / each["content"]["name"],
            )
            for each in self._state("objects", bucket=bucket)
            if each["key"].startswith(prefix)
        ]

    def keys(self, bucket: str, prefix: str = "") -> list[str]:
        """Return the bucket's keys in order."""
        return [each.key for each in self.entries(bucket, prefix)]

    def read(self, bucket: str, key: str) -> bytes:
        """Return an object's content, read from the disk."""
        for entry in self.entries(bucket, key):
            if entry.key == key:
                return entry.path.read_bytes()
        raise FileNotFoundError(f"oss://{bucket}/{key}")

    def write(self, bucket: str, key: str, content: bytes) -> None:
        """Create or replace an object, bypassing faults, rights and the request log."""
        query = urlencode({"bucket": bucket, "key": key})
        self._send("PUT", f"content?{query}", content)

    def uploads(self, bucket: str) -> list[OssUpload]:
        """Return the unfinished multipart uploads."""
        return [
            OssUpload(
                key=each["key"],
                upload_id=each["upload_id"],
                part_sizes={int(number): size for number, size in each["part_sizes"].items()},
            )
            for each in self._state("uploads", bucket=bucket)
        ]

    # Any: JSON whose shape `controls` defines.
    def _state(self, name: str, **query: str) -> Any:
        return self._send("GET", f"{name}?{urlencode(query)}")

    def _command(self, name: str, command: dict[str, Any]) -> None:
        self._send("POST", name, json.dumps(command).encode())

    def _send(self, method: str, target: str, body: bytes | None = None) -> Any:
        url = f"{self.control_address}{target}"
        request = urllib.request.Request(url, data=body, method=method)  # noqa: S310  # our own server's address
        try:
            with urllib.request.urlopen(request, timeout=_ANSWER_SECONDS) as answer:  # noqa: S310
                return json.load(answer)
        except urllib.error.HTTPError as exc:
            with exc:
                raise ValueError(json.load(exc)["error"]) from exc
