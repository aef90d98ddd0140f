"""The fake's process: `python -m storeservers.gcs.service --host 127.0.0.1 --port 8080 --dir data`.

In its folder, `tokens.json` contains the rights of each token, and `public.pem` is the key of the service account for which the fake issues
tokens. `buckets/` and `parts/` contain one file for each object or part. The metadata of objects is in memory, so it is lost when the fake
ends.
"""

from __future__ import annotations

import argparse
import base64
import hashlib
import http.server
import itertools
import json
import threading
import urllib.parse
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from xml.sax.saxutils import escape

import google_crc32c
import jwt

PAGE = 1000
_LEAST_PART_BYTES = 5 << 20


@dataclass(frozen=True)
class Stored:
    """An object."""

    path: Path
    size: int
    etag: str
    crc32c: str
    md5: str | None
    generation: int
    modified: datetime


@dataclass
class Upload:
    """An unfinished multipart upload."""

    key: str
    begun: datetime
    parts: dict[int, tuple[Path, str]] = field(default_factory=dict)


class Refused(Exception):
    """An error response."""

    def __init__(self, status: int, code: str, details: str = "") -> None:
        super().__init__(code)
        self.status = status
        self.code = code
        self.details = details


class Service(http.server.ThreadingHTTPServer):
    """All buckets."""

    daemon_threads = True

    def __init__(self, address: tuple[str, int], folder: Path) -> None:
        super().__init__(address, Handler)
        self.folder = folder
        self.lock = threading.Lock()
        self.objects: dict[tuple[str, str], Stored] = {}
        self.uploads: dict[tuple[str, str], Upload] = {}
        self.numbers = itertools.count(1)

    def keep(self, body: bytes) -> Path:
        """Writes the content to a file."""
        path = self.folder / "parts" / str(next(self.numbers))
        path.write_bytes(body)
        return path


class Handler(http.server.BaseHTTPRequestHandler):
    """Handles a request."""

    server: Service
    protocol_version = "HTTP/1.1"
    # The headers and the body of a response are written separately. With Nagle's algorithm, the second write would wait for the client's
    # ACK.
    disable_nagle_algorithm = True

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
        """Log failures only."""

    def do_GET(self) -> None:
        """Respond."""
        self._serve()

    def do_HEAD(self) -> None:
        """Respond."""
        self._serve()

    def do_PUT(self) -> None:
        """Respond."""
        self._serve()

    def do_POST(self) -> None:
        """Respond."""
        self._serve()

    def do_DELETE(self) -> None:
        """Respond."""
        self._serve()

    def _serve(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        path, _, question = self.path.partition("?")
        query = dict(urllib.parse.parse_qsl(question, keep_blank_values=True))
        try:
            if path == "/token":
                self._give_a_token(body)
            elif path.startswith("/computeMetadata/") or path == "/":
                self._tell_of_the_node(path)
            else:
                bucket, _, key = urllib.parse.unquote(path)[1:].partition("/")
                self._store(bucket, key, query, body)
        except Refused as refused:
            document = f"<?xml version='1.0' encoding='UTF-8'?><Error><Code>{refused.code}</Code><Message>{refused.code}.</Message>"
            self._answer(refused.status, document + f"<Details>{escape(refused.details)}</Details></Error>")

    # -- tokens -------------------------------------------------------------------------------------------------

    def _give_a_token(self, body: bytes) -> None:
        form = dict(urllib.parse.parse_qsl(body.decode()))
        public = (self.server.folder / "public.pem").read_text()
        try:
            jwt.decode(form["assertion"], public, algorithms=["RS256"], options={"verify_aud": False})
        except jwt.InvalidTokenError as exc:
            self._answer_json(400, {"error": "invalid_grant", "error_description": str(exc)})
            return
        self._answer_json(200, {"access_token": "of-the-key", "expires_in": 3600, "token_type": "Bearer"})

    def _tell_of_the_node(self, path: str) -> None:
        if self.headers["Metadata-Flavor"] != "Google":
            raise Refused(403, "Forbidden")
        if path.endswith("/token"):
            self._answer_json(200, {"access_token": "of-the-node", "expires_in": 3600, "token_type": "Bearer"})
        elif path.endswith("project-id"):
            self._answer(200, "project", {"content-type": "text/plain", "metadata-flavor": "Google"})
        else:
            self._answer_json(200, {"email": "node@project.iam.gserviceaccount.com", "scopes": [], "aliases": ["default"]})

    def _needs(self, right: str, bucket: str, key: str) -> None:
        tokens = json.loads((self.server.folder / "tokens.json").read_text())
        token = (self.headers["Authorization"] or "").removeprefix("Bearer ")
        if token not in tokens:
            raise Refused(401, "AuthenticationRequired")
        if not (self.server.folder / "buckets" / bucket).is_dir():
            raise Refused(404, "NoSuchBucket")
        if right not in tokens[token] and "*" not in tokens[token]:
            what = "object" if key else "bucket"
            raise Refused(403, "AccessDenied", f"someone@project does not have {right} access to the Google Cloud Storage {what}.")

    # -- objects ------------------------------------------------------------------------------------------------

    def _store(self, bucket: str, key: str, query: Mapping[str, str], body: bytes) -> None:
        self._check_digest(body)
        match self.command:
            case "GET" if not key and "uploads" in query:
                self._needs("storage.multipartUploads.list", bucket, key)
                self._list_uploads(bucket, query)
            case "GET" if not key:
                self._needs("storage.objects.list", bucket, key)
                self._list(bucket, query)
            case "GET" | "HEAD":
                self._needs("storage.objects.get", bucket, key)
                self._read(bucket, key)
            case "DELETE" if "uploadId" in query:
                self._needs("storage.multipartUploads.abort", bucket, key)
                self._upload(bucket, query)
                del self.server.uploads[bucket, query["uploadId"]]
                self._answer(204, "")
            case "DELETE":
                self._needs("storage.objects.delete", bucket, key)
                self._found(bucket, key)
                self.server.objects.pop((bucket, key), None)
                self._answer(204, "")
            case "PUT" if "uploadId" in query:
                self._needs("storage.objects.create", bucket, key)
                tag = f'"{hashlib.md5(body, usedforsecurity=False).hexdigest()}"'
                self._upload(bucket, query).parts[int(query["partNumber"])] = (self.server.keep(body), tag)
                self._answer(200, "", {"etag": tag})
            case "PUT":
                self._needs("storage.objects.create", bucket, key)
                self._put(bucket, key, body)
            case "POST" if "uploads" in query:
                self._needs("storage.multipartUploads.create", bucket, key)
                name = f"upload-{next(self.server.numbers)}"
                self.server.uploads[bucket, name] = Upload(key, datetime.now(UTC))
                self._answer(200, f"<InitiateMultipartUploadResult><UploadId>{name}</UploadId></InitiateMultipartUploadResult>")
            case "POST" if "uploadId" in query:
                self._needs("storage.multipartUploads.create", bucket, key)
                self._complete(bucket, key, query, body)
            case _:
                raise Refused(400, "InvalidArgument")

    def _check_digest(self, body: bytes) -> None:
        given = self.headers["Content-MD5"]
        if given is not None and base64.b64decode(given) != hashlib.md5(body, usedforsecurity=False).digest():
            raise Refused(400, "BadDigest")

    def _found(self, bucket: str, key: str) -> Stored:
        found = self.server.objects.get((bucket, key))
        if found is None:
            raise Refused(404, "NoSuchKey")
        return found

    def _upload(self, bucket: str, query: Mapping[str, str]) -> Upload:
        found = self.server.uploads.get((bucket, query["uploadId"]))
        if found is None:
            raise Refused(404, "NoSuchUpload")
        return found

    def _put(self, bucket: str, key: str, body: bytes) -> None:
        source = self.headers["x-goog-copy-source"]
        if source is None:
            stored = self._stored(self.server.keep(body), body, md5=hashlib.md5(body, usedforsecurity=False).digest())
        else:
            of = self._found(*urllib.parse.unquote(source)[1:].split("/", 1))
            stored = self._stored(of.path, of.path.read_bytes(), md5=None)
        self._publish(bucket, key, stored, if_generation=self.headers["x-goog-if-generation-match"])
        if source is None:
            self._answer(200, "", {"etag": stored.etag})
        else:
            self._answer(200, f"<CopyObjectResult><ETag>{escape(stored.etag)}</ETag></CopyObjectResult>")

    def _complete(self, bucket: str, key: str, query: Mapping[str, str], body: bytes) -> None:
        if any(name.lower().startswith(("x-goog-if-", "if-")) for name in self.headers):
            raise Refused(400, "NotImplemented", "Preconditions can't be used in multipart uploads.")
        upload = self._upload(bucket, query)
        asked = [int(part.partition("</PartNumber>")[0]) for part in body.decode().split("<PartNumber>")[1:]]
        contents = []
        for number in asked:
            if number not in upload.parts:
                raise Refused(400, "InvalidPart")
            contents.append(upload.parts[number][0].read_bytes())
        if any(len(each) < _LEAST_PART_BYTES for each in contents[:-1]):
            raise Refused(400, "EntityTooSmall")
        whole = b"".join(contents)
        del self.server.uploads[bucket, query["uploadId"]]
        stored = self._stored(self.server.keep(whole), whole, md5=None)
        self._publish(bucket, key, stored, if_generation=None)
        self._answer(200, f"<CompleteMultipartUploadResult><ETag>{escape(stored.etag)}</ETag></CompleteMultipartUploadResult>")

    def _stored(self, path: Path, body: bytes, *, md5: bytes | None) -> Stored:
        generation = next(self.server.numbers)
        crc = base64.b64encode(google_crc32c.value(body).to_bytes(4, "big")).decode()
        # As in the service, the ETag of an object uploaded in one request is its MD5. All other ETags are opaque.
        etag = f'"{md5.hex()}"' if md5 is not None else f'"-C{generation}="'
        digest = None if md5 is None else base64.b64encode(md5).decode()
        return Stored(path, len(body), etag, crc, digest, generation, datetime.now(UTC))

    def _publish(self, bucket: str, key: str, stored: Stored, *, if_generation: str | None) -> None:
        with self.server.lock:
            there = self.server.objects.get((bucket, key))
            if if_generation is not None and int(if_generation) != (0 if there is None else there.generation):
                raise Refused(412, "PreconditionFailed")
            if there is not None:
                self._needs("storage.objects.delete", bucket, key)
            self.server.objects[bucket, key] = stored

    def _read(self, bucket: str, key: str) -> None:
        found = self._found(bucket, key)
        if self.headers["If-Match"] not in (None, found.etag):
            raise Refused(412, "PreconditionFailed")
        hashes = f"crc32c={found.crc32c}"
        headers = {
            "etag": found.etag,
            "x-goog-generation": str(found.generation),
            "last-modified": f"{found.modified:%a, %d %b %Y %H:%M:%S GMT}",
            "x-goog-hash": hashes if found.md5 is None else f"{hashes},md5={found.md5}",
        }
        body = found.path.read_bytes()
        if self.headers["Range"] is None:
            self._answer(200, body, headers)
            return
        first, _, last = self.headers["Range"].removeprefix("bytes=").partition("-")
        piece = body[int(first) : int(last) + 1 if last else None]
        if not piece:
            raise Refused(416, "InvalidRange")
        self._answer(206, piece, headers | {"content-range": f"bytes {first}-{int(first) + len(piece) - 1}/{len(body)}"})

    # -- listings -----------------------------------------------------------------------------------------------

    def _list(self, bucket: str, query: Mapping[str, str]) -> None:
        prefix, delimiter = query.get("prefix", ""), query.get("delimiter", "")
        token = query.get("continuation-token")
        after = query.get("start-after", "") if token is None else base64.b64decode(token).decode()
        lines: list[str] = []
        last = ""
        # The items are keys and prefixes. Each prefix stands for all keys below it.
        for key in sorted((key for where, key in list(self.server.objects) if where == bucket and key.startswith(prefix)), key=str.encode):
            rest = key[len(prefix) :]
            item = prefix + rest[: rest.index(delimiter) + 1] if delimiter and delimiter in rest else key
            if item.encode() <= max(after, last).encode():
                continue
            if len(lines) == PAGE:
                lines.append("<IsTruncated>true</IsTruncated>")
                lines.append(f"<NextContinuationToken>{base64.b64encode(last.encode()).decode()}</NextContinuationToken>")
                break
            last = item
            stored = self.server.objects.get((bucket, key))
            if item != key:
                lines.append(f"<CommonPrefixes><Prefix>{escape(item)}</Prefix></CommonPrefixes>")
            elif stored is not None:
                lines.append(
                    f"<Contents><Key>{escape(key)}</Key><Size>{stored.size}</Size><ETag>{escape(stored.etag)}</ETag>"
                    f"<LastModified>{stored.modified:%Y-%m-%dT%H:%M:%S.%f}Z</LastModified></Contents>"
                )
        self._answer(200, f"<ListBucketResult xmlns='http://doc.s3.amazonaws.com/2006-03-01'>{''.join(lines)}</ListBucketResult>")

    def _list_uploads(self, bucket: str, query: Mapping[str, str]) -> None:
        lines = [
            f"<Upload><Key>{escape(upload.key)}</Key><UploadId>{name}</UploadId>"
            f"<Initiated>{upload.begun:%Y-%m-%dT%H:%M:%S.%f}Z</Initiated></Upload>"
            for (where, name), upload in list(self.server.uploads.items())
            if where == bucket and upload.key.startswith(query.get("prefix", ""))
        ]
        self._answer(200, f"<ListMultipartUploadsResult>{''.join(lines)}</ListMultipartUploadsResult>")

    # -- responses ----------------------------------------------------------------------------------------------

    def _answer_json(self, status: int, document: object) -> None:
        self._answer(status, json.dumps(document), {"content-type": "application/json", "metadata-flavor": "Google"})

    def _answer(self, status: int, body: str | bytes, headers: Mapping[str, str] | None = None) -> None:
        content = body.encode() if isinstance(body, str) else body
        self.send_response(status)
        for name, value in {"content-length": str(len(content)), **(headers or {})}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)


def main() -> None:
    """Serve until the process is terminated."""
    parser = argparse.ArgumentParser(prog="python -m storeservers.gcs.service", description="A fake that speaks Cloud Storage's XML API.")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--dir", type=Path, required=True)
    options = parser.parse_args()
    for name in ("buckets", "parts"):
        (options.dir / name).mkdir(parents=True, exist_ok=True)
    Service((options.host, options.port), options.dir).serve_forever()


if __name__ == "__main__":
    main()
