"""A fake of the Hugging Face Hub. It handles the API requests that the library sends to read and write, for a single repository in memory.

The fake is simpler than the Hub. It has one namespace and no Xet storage, doesn't split listings into pages, and checks tokens only by
comparing their text. Its responses are those that the library's code expects.
"""

import base64
import hashlib
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import PurePosixPath
from typing import Any, Final
from urllib.parse import parse_qs, unquote, urlsplit

_LARGE: Final = (".parquet", ".arrow", ".tar", ".gz", ".zip", ".npy", ".bin")
"""On the Hub, the `.gitattributes` file of a new data set marks files with these extensions as large files.

All other binary files are stored as large files too.
"""
_WRITES: Final = ("branch", "commit", "preupload", "auth-check")


@dataclass
class _RefusedError(Exception):
    status: int
    code: str
    message: str = ""
    retry_after: str | None = None


class FakeHub:
    """The repository `datasets/org/set`, and the requests that were received."""

    def __init__(self) -> None:
        self.commits: dict[str, dict[str, bytes]] = {}
        """The files of each commit, by path."""
        self.branches: dict[str, str] = {}
        self.log: list[tuple[str, str]] = []
        """The branch and the title of each commit that was made through the API."""
        self.large: dict[str, bytes] = {}
        """The contents of large files, by their SHA-256. Content isn't visible until a commit refers to it."""
        self.token: str | None = None
        """The token that every request needs."""
        self.read_only: set[str] = set()
        """Other tokens, which are only allowed to read."""
        self.requests: list[str] = []
        self.refused = 0
        """The number of commits that were refused because their parent wasn't the newest commit."""
        self.busy: list[str] = []
        """The values of Retry-After for the next commit requests, each of which fails with status 429."""
        self.ignored: Callable[[str], bool] = lambda _: False
        """Whether the repository's `.gitignore` excludes a path. The Hub reports this only before a commit; the library then leaves the
        file out."""
        self.refuses_content_at = ""
        """Where the contents of large files are refused: `batch` (all together), `object` (each one individually), or `storage`."""
        self.before_request: Callable[[str], None] = lambda _: None
        """Called with each request before the fake responds."""
        self.before_commit: Callable[[str], None] = lambda _: None
        """Called with the branch before a commit is made through the API."""
        self.endpoint = ""
        self.lock = threading.RLock()

    def commit(self, files: dict[str, bytes], branch: str = "main") -> str:
        """Adds a commit with these files."""
        with self.lock:
            names = sorted((path, hashlib.sha256(content).hexdigest()) for path, content in files.items())
            sha = hashlib.sha1(json.dumps([len(self.commits), names]).encode(), usedforsecurity=False).hexdigest()
            self.commits[sha] = files
            self.branches[branch] = sha
            return sha

    def files(self, revision: str) -> tuple[str, dict[str, bytes]] | None:
        """The commit and the files of a revision, or None if the revision doesn't exist."""
        sha = self.branches.get(revision, revision)
        return (sha, self.commits[sha]) if sha in self.commits else None

    def at(self, revision: str) -> tuple[str, dict[str, bytes]]:
        """The commit and the files of a revision, which must exist."""
        found = self.files(revision)
        if found is None:
            raise _RefusedError(404, "RevisionNotFound")
        return found


def _is_large(path: str, content: bytes) -> bool:
    return bool(content) and (path.endswith(_LARGE) or b"\0" in content[:512] or len(content) > 10 << 20)


def _git_id(content: bytes) -> str:
    return hashlib.sha1(b"blob %d\0" % len(content) + content, usedforsecurity=False).hexdigest()


def _file(path: str, content: bytes) -> dict[str, Any]:
    info: dict[str, Any] = {"type": "file", "oid": _git_id(content), "size": len(content), "path": path}
    if not _is_large(path, content):
        return info
    sha256 = hashlib.sha256(content).hexdigest()
    pointer = f"version https://git-lfs.github.com/spec/v1\noid sha256:{sha256}\nsize {len(content)}\n".encode()
    return info | {"oid": _git_id(pointer), "lfs": {"oid": sha256, "size": len(content), "pointerSize": len(pointer)}}


def _tree(files: dict[str, bytes], folder: str, *, recursive: bool = False) -> list[dict[str, Any]]:
    prefix = f"{folder}/" if folder else ""
    entries: dict[str, dict[str, Any]] = {}
    for path, content in files.items():
        if path.startswith(prefix):
            for above in list(PurePosixPath(path[len(prefix) :]).parents)[:-1] if recursive else ():
                entries[f"{above}"] = _folder(f"{prefix}{above}")
            name, slash, _ = path[len(prefix) :].partition("/")
            entries[path[len(prefix) :] if recursive else name] = (
                _folder(prefix + name) if slash and not recursive else _file(path, content)
            )
    return list(entries.values())


def _folder(path: str) -> dict[str, Any]:
    return {"type": "directory", "oid": "0" * 40, "size": 0, "path": path}


def _committed(hub: FakeHub, revision: str, lines: list[dict[str, Any]]) -> str:
    """Makes the commit that an API request asks for. Returns the commit's hash."""
    if hub.busy:
        raise _RefusedError(429, "TooManyRequests", "You have exceeded our hourly quotas for action: commit.", hub.busy.pop(0))
    if revision not in hub.branches:
        raise _RefusedError(404, "RevisionNotFound", f"Invalid rev id: {revision}")
    hub.before_commit(revision)
    with hub.lock:
        head, files = hub.at(revision)
        header, *operations = lines
        if header["value"].get("parentCommit", head) != head:
            hub.refused += 1
            raise _RefusedError(412, "PreconditionFailed", "A commit has happened since. Please refresh and try again.")
        files = dict(files)
        for operation in operations:
            value = operation["value"]
            if operation["key"] == "file":
                files[value["path"]] = base64.b64decode(value["content"])
            elif operation["key"] == "lfsFile":
                if value["oid"] not in hub.large:
                    raise _RefusedError(400, "BadRequest", f"{value['path']}: no object {value['oid']} was uploaded")
                files[value["path"]] = hub.large[value["oid"]]
            elif operation["key"] == "deletedFile":
                if files.pop(value["path"], None) is None:
                    raise _RefusedError(404, "EntryNotFound", "A file with this name doesn't exist")
            else:
                raise _RefusedError(400, "BadRequest", f"unknown operation {operation['key']}")
        hub.log.append((revision, header["value"]["summary"]))
        return hub.commit(files, revision)


def _handler(hub: FakeHub) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def log_message(self, *_: Any) -> None:
            pass

        def answer(self, status: int, content: bytes, **headers: str) -> None:
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name.replace("_", "-"), value)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(content)

        def answer_json(self, document: Any, status: int = 200) -> None:
            self.answer(status, json.dumps(document).encode(), Content_Type="application/json")

        def body(self) -> bytes:
            if self.headers.get("Transfer-Encoding") != "chunked":
                return self.rfile.read(int(self.headers.get("Content-Length") or 0))
            pieces = []
            while size := int(self.rfile.readline(), 16):
                pieces.append(self.rfile.read(size))
                self.rfile.readline()
            self.rfile.readline()
            return b"".join(pieces)

        def handle_request(self) -> None:
            body = self.body()
            url = urlsplit(self.path)
            hub.requests.append(f"{self.command} {unquote(url.path)}")
            hub.before_request(hub.requests[-1])
            try:
                self.route([unquote(step) for step in url.path.strip("/").split("/")], parse_qs(url.query), body)
            except _RefusedError as refused:
                headers = {"X_Error_Code": refused.code, "X_Error_Message": refused.message or refused.code}
                if refused.retry_after is not None:
                    headers["Retry_After"] = refused.retry_after
                self.answer(refused.status, json.dumps({"error": refused.message or refused.code}).encode(), **headers)

        def route(self, steps: list[str], query: dict[str, list[str]], body: bytes) -> None:
            if steps[0] == "lfs":
                # The address is signed, so no token is needed.
                self.large_file(steps[1:], body)
                return
            token = (self.headers.get("Authorization") or "").removeprefix("Bearer ")
            if hub.token is not None and token != hub.token and token not in hub.read_only:
                raise _RefusedError(401, "RepoNotFound")
            steps = steps[1:] if steps[0] == "api" else steps
            if steps[:3] == ["datasets", "org", "set.git"]:
                self.refuse_readers(token)
                self.announced(json.loads(body))
                return
            if steps[:3] != ["datasets", "org", "set"]:
                raise _RefusedError(404 if hub.token else 401, "RepoNotFound")
            action, revision, *inner = [*steps[3:], ""] if len(steps) > 3 else ["revision", "main"]
            if action in _WRITES:
                self.refuse_readers(token)
                self.write(action, revision, body)
            else:
                self.read(action, revision, "/".join(inner).rstrip("/"), query, body)

        def refuse_readers(self, token: str) -> None:
            if token in hub.read_only:
                raise _RefusedError(403, "Forbidden", "you must use a write token to upload to a repository")

        def write(self, action: str, revision: str, body: bytes) -> None:
            if action == "auth-check":
                self.answer(200, b"")
            elif action == "branch" and self.command == "DELETE":
                if hub.branches.pop(revision, None) is None:
                    raise _RefusedError(404, "RevisionNotFound")
                self.answer(200, b"")
            elif action == "branch":
                start, _ = hub.at(json.loads(body).get("startingPoint", "main"))
                if revision in hub.branches:
                    raise _RefusedError(409, "Conflict", f"Reference already exists: {revision}")
                hub.branches[revision] = start
                self.answer(201, b"")
            elif action == "preupload":
                _, files = hub.at(revision)
                self.answer_json({"files": [self.mode(each, files) for each in json.loads(body)["files"]]})
            else:
                made = _committed(hub, revision, [json.loads(line) for line in body.splitlines()])
                self.answer_json({"success": True, "commitOid": made, "commitUrl": f"{hub.endpoint}/datasets/org/set/commit/{made}"})

        def mode(self, file: dict[str, Any], files: dict[str, bytes]) -> dict[str, Any]:
            sample = base64.b64decode(file["sample"])
            is_large = _is_large(file["path"], sample) or file["size"] > 10 << 20
            present = files.get(file["path"])
            oid = None if present is None else hashlib.sha256(present).hexdigest() if is_large else _git_id(present)
            return {
                "path": file["path"],
                "uploadMode": "lfs" if is_large else "regular",
                "shouldIgnore": hub.ignored(file["path"]),
                "oid": oid,
            }

        def announced(self, request: dict[str, Any]) -> None:
            if hub.refuses_content_at == "batch":
                raise _RefusedError(403, "Forbidden", "no permission for large files")
            if hub.refuses_content_at == "object":
                error = {"code": 403, "message": "no permission for this file"}
                self.answer_json({"transfer": "basic", "objects": [each | {"error": error} for each in request["objects"]]})
                return
            objects = []
            for each in request["objects"]:
                actions = {"upload": {"href": f"{hub.endpoint}/lfs/{each['oid']}"}, "verify": {"href": f"{hub.endpoint}/lfs/verify"}}
                objects.append(each if each["oid"] in hub.large else each | {"actions": actions})
            self.answer_json({"transfer": "basic", "objects": objects})

        def large_file(self, steps: list[str], body: bytes) -> None:
            if hub.refuses_content_at == "storage":
                raise _RefusedError(403, "AccessDenied", "Request has expired")
            if steps == ["verify"]:
                named = json.loads(body)
                if len(hub.large.get(named["oid"], b"")) != named["size"]:
                    raise _RefusedError(404, "NotFound", f"no object {named['oid']}")
            else:
                if hashlib.sha256(body).hexdigest() != steps[0]:
                    raise _RefusedError(400, "BadDigest")
                hub.large[steps[0]] = body
            self.answer(200, b"")

        def read(self, action: str, revision: str, inner: str, query: dict[str, list[str]], body: bytes) -> None:
            if action == "refs":
                names = [{"name": name, "ref": f"refs/heads/{name}", "targetCommit": sha} for name, sha in hub.branches.items()]
                self.answer_json({"branches": names, "converts": [], "tags": []})
                return
            sha, files = hub.at(revision)
            if action == "revision":
                self.answer_json({"_id": "1", "id": "org/set", "sha": sha, "siblings": []})
            elif action == "tree":
                entries = _tree(files, inner, recursive=query.get("recursive") in (["true"], ["True"]))
                if not entries:
                    raise _RefusedError(404, "EntryNotFound")
                self.answer_json(entries)
            elif action == "paths-info":
                wanted = json.loads(body)["paths"] if body.startswith(b"{") else parse_qs(body.decode())["paths"]
                infos = [_file(path, files[path]) for path in wanted if path in files]
                infos += [
                    each for path in wanted for each in _tree(files, path.rpartition("/")[0]) if each["path"] == path and path not in files
                ]
                self.answer_json(infos)
            elif action == "resolve" and inner in files:
                self.send_range(files[inner])
            else:
                raise _RefusedError(404, "EntryNotFound")

        def send_range(self, content: bytes) -> None:
            if "Range" not in self.headers:
                self.answer(200, content)
                return
            first, _, last = self.headers["Range"].removeprefix("bytes=").partition("-")
            start, stop = int(first), int(last) + 1 if last else len(content)
            self.answer(206, content[start:stop], Content_Range=f"bytes {start}-{stop - 1}/{len(content)}")

        do_GET = do_POST = do_HEAD = do_PUT = do_DELETE = handle_request  # noqa: N815 - the base class looks for these names

    return Handler


@contextmanager
def fake_hub() -> Iterator[FakeHub]:
    """A running fake of the Hub."""
    hub = FakeHub()
    server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(hub))
    server.daemon_threads = True
    hub.endpoint = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield hub
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
