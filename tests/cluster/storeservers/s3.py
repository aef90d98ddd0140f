"""A real S3 server: versitygw. It stores objects as plain files, so tests inspect the output without a client.

moto would be easier to install, but it accepts wrong secrets.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import hmac
import http
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree as ET

from storeservers import cache
from storeservers.processes import Lifetime
from storeservers.servers import OneServer

_MODULE = Path(__file__).parents[1] / "go" / "versitygw"
_PACKAGE = "github.com/versity/versitygw/cmd/versitygw"
_ANSWER_SECONDS = 60.0
_LISTINGS = 5
"""How often a listing is requested, at most, if the server fails."""
# versitygw keeps parts of unfinished uploads here, next to the objects.
_TEMPORARY_FOLDER = ".sgwtmp"


class S3Error(RuntimeError):
    """The server rejected a request. `code` is the S3 error code, such as AccessDenied."""

    def __init__(self, message: str, *, status: int, code: str) -> None:
        super().__init__(message)
        self.status = status
        self.code = code


@dataclass(frozen=True)
class S3Upload:
    """An unfinished multipart upload."""

    key: str
    upload_id: str


def binary() -> Path:
    """Return the server's binary; the first call on a machine builds it."""
    key = cache.key_of(_MODULE / "go.mod", _MODULE / "go.sum")
    return cache.entry(f"bin-versitygw-{key}", _build) / "versitygw"


def _build(into: Path) -> None:
    cache.build(
        ["go", "build", "-mod=readonly", "-trimpath", "-o", str(into / "versitygw"), _PACKAGE],
        cwd=_MODULE,
    )


class S3Server(OneServer):
    """An S3 server. Clients must allow plain http and use path style."""

    name = "versitygw"

    def __init__(
        self,
        run_dir: Path,
        *,
        host: str = "127.0.0.1",
        access_key: str = "test-access-key",
        secret_key: str = "test-secret-key",  # noqa: S107  # protects nothing but test data
        region: str = "us-east-1",
        lifetime: Lifetime = Lifetime.WITH_STARTER,
    ) -> None:
        super().__init__(run_dir, host=host, lifetime=lifetime)
        self.access_key = access_key
        self.secret_key = secret_key
        self.region = region

    @property
    def data_dir(self) -> Path:
        """The folder that contains one folder per bucket, with one file per object."""
        return self.run_dir / "data"

    # -- server -------------------------------------------------------------------------------------------------

    def launch(self) -> None:
        folders = {name: self.run_dir / name for name in ("data", "versions", "iam")}
        for folder in folders.values():
            folder.mkdir(parents=True, exist_ok=True)
        self._launch(
            [
                str(binary()),
                *("--port", f"{self.host}:{self.port}", "--region", self.region, "--keep-alive"),
                *("--iam-dir", str(folders["iam"])),
                *("posix", "--versioning-dir", str(folders["versions"]), str(folders["data"])),
            ],
            environment={"ROOT_ACCESS_KEY": self.access_key, "ROOT_SECRET_KEY": self.secret_key},
        )

    # -- administration -----------------------------------------------------------------------------------------

    def make_bucket(self, bucket: str) -> None:
        """Create an empty bucket."""
        self.request("PUT", f"/{bucket}")

    def add_user(self, access_key: str, secret_key: str) -> None:
        """Add another key. The key has no rights until a bucket policy grants some."""
        account = (
            f"<Account><Access>{access_key}</Access><Secret>{secret_key}</Secret><Role>user</Role>"
            "<UserID>0</UserID><GroupID>0</GroupID><ProjectID>0</ProjectID></Account>"
        )
        self.request("PATCH", "/create-user", body=account.encode())

    def set_policy(self, bucket: str, policy: str) -> None:
        """Replace a bucket's policy, a JSON document; principals are access keys."""
        self.request("PUT", f"/{bucket}", query={"policy": ""}, body=policy.encode())

    # -- inspection --------------------------------------------------------------------------------------------

    def keys(self, bucket: str, prefix: str = "") -> list[str]:
        """Return the bucket's keys, read from the disk."""
        folder = self.data_dir / bucket
        # Only the prefix's folder is listed, because a bucket contains the output of hundreds of tests.
        below = folder / prefix.rpartition("/")[0]
        names = (each.relative_to(folder).as_posix() for each in below.rglob("*") if each.is_file())
        return sorted(name for name in names if name.startswith(prefix) and not name.startswith(f"{_TEMPORARY_FOLDER}/"))

    def read(self, bucket: str, key: str) -> bytes:
        """Return an object's content, read from the disk."""
        return (self.data_dir / bucket / key).read_bytes()

    def write(self, bucket: str, key: str, content: bytes) -> None:
        """Create or replace an object."""
        self.request("PUT", f"/{bucket}/{key}", body=content)

    def uploads(self, bucket: str) -> list[S3Upload]:
        """Return the unfinished multipart uploads."""
        answer = _parsed(self._listing(f"/{bucket}", {"uploads": ""}))
        return [
            S3Upload(key=each.findtext("{*}Key") or "", upload_id=each.findtext("{*}UploadId") or "")
            for each in answer.iterfind("{*}Upload")
        ]

    def _listing(self, path: str, query: Mapping[str, str]) -> bytes:
        """Request a listing. The server responds with InternalError if an upload ends while the server reads its folders."""
        for _ in range(_LISTINGS - 1):
            try:
                return self.request("GET", path, query=query)
            except S3Error as exc:
                if exc.status != http.HTTPStatus.INTERNAL_SERVER_ERROR:
                    raise
        return self.request("GET", path, query=query)

    def request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: bytes = b"",
    ) -> bytes:
        """Send a request signed with the server's own key; return the response body."""
        request = urllib.request.Request(  # noqa: S310  # our own server's address
            f"{self.endpoint}{urllib.parse.quote(path)}?{_canonical_query(query or {})}",
            data=body,
            method=method,
            headers=self._signed_headers(method=method, path=path, query=query or {}, body=body),
        )
        try:
            with urllib.request.urlopen(request, timeout=_ANSWER_SECONDS) as answer:  # noqa: S310
                content: bytes = answer.read()
                return content
        except urllib.error.HTTPError as exc:
            with exc:
                raise _refusal(exc, what=f"{method} {path}") from exc

    def _signed_headers(
        self,
        *,
        method: str,
        path: str,
        query: Mapping[str, str],
        body: bytes,
    ) -> dict[str, str]:
        time = dt.datetime.now(dt.UTC).strftime("%Y%m%dT%H%M%SZ")
        scope = f"{time[:8]}/{self.region}/s3/aws4_request"
        payload_digest = hashlib.sha256(body).hexdigest()
        headers = {
            "host": f"{self.host}:{self.port}",
            "x-amz-content-sha256": payload_digest,
            "x-amz-date": time,
        }
        names = ";".join(headers)
        canonical_headers = "".join(f"{name}:{value}\n" for name, value in headers.items())
        canonical_request = "\n".join([method, urllib.parse.quote(path), _canonical_query(query), canonical_headers, names, payload_digest])
        request_digest = hashlib.sha256(canonical_request.encode()).hexdigest()
        key = f"AWS4{self.secret_key}".encode()
        for part in scope.split("/"):
            key = _hmac(key, part)
        signature = _hmac(key, f"AWS4-HMAC-SHA256\n{time}\n{scope}\n{request_digest}").hex()
        authorization = f"AWS4-HMAC-SHA256 Credential={self.access_key}/{scope}, SignedHeaders={names}, Signature={signature}"
        return {**headers, "authorization": authorization}


def _parsed(document: bytes) -> ET.Element:
    return ET.fromstring(document)  # noqa: S314  # our own server's response


def _canonical_query(query: Mapping[str, str]) -> str:
    return urllib.parse.urlencode(sorted(query.items()), quote_via=urllib.parse.quote)


def _hmac(key: bytes, text: str) -> bytes:
    return hmac.new(key, text.encode(), hashlib.sha256).digest()


def _refusal(error: urllib.error.HTTPError, *, what: str) -> S3Error:
    body = error.read()
    try:
        code = _parsed(body).findtext("{*}Code") or "unknown"
    except ET.ParseError:
        code = "unknown"
    return S3Error(f"{what}: {error.code} {code}: {body.decode(errors='replace')}", status=error.code, code=code)
