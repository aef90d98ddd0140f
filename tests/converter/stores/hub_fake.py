"""A fake of the Hugging Face Hub: the requests of its API that the library's file system sends, for repositories in memory.

It isn't the Hub: it knows one namespace, answers without pages, and compares a token with a single one.
"""

import hashlib
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit


class FakeHub:
    """The repositories, and the requests that came."""

    def __init__(self) -> None:
        self.commits: dict[str, dict[str, bytes]] = {}
        """The files of each commit, by path."""
        self.branches: dict[str, str] = {}
        self.token: str | None = None
        """The token that every request needs."""
        self.requests: list[str] = []
        self.endpoint = ""

    def commit(self, files: dict[str, bytes], branch: str = "main") -> str:
        """Adds a commit with these files to the repository `datasets/org/set`."""
        sha = hashlib.sha1(json.dumps([len(self.commits), sorted(files)]).encode(), usedforsecurity=False).hexdigest()
        self.commits[sha] = files
        self.branches[branch] = sha
        return sha

    def files(self, revision: str) -> tuple[str, dict[str, bytes]] | None:
        """The commit and the files of a revision."""
        sha = self.branches.get(revision, revision)
        return (sha, self.commits[sha]) if sha in self.commits else None


def _file(path: str, content: bytes) -> dict[str, Any]:
    oid = hashlib.sha1(b"blob %d\0" % len(content) + content, usedforsecurity=False).hexdigest()
    return {"type": "file", "oid": oid, "size": len(content), "path": path}


def _tree(files: dict[str, bytes], folder: str) -> list[dict[str, Any]]:
    prefix = f"{folder}/" if folder else ""
    entries: dict[str, dict[str, Any]] = {}
    for path, content in files.items():
        if path.startswith(prefix):
            name, slash, _ = path[len(prefix) :].partition("/")
            entries[name] = {"type": "directory", "oid": "0" * 40, "size": 0, "path": prefix + name} if slash else _file(path, content)
    return list(entries.values())


def _handler(hub: FakeHub) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

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

        def refuse(self, status: int, code: str) -> None:
            self.answer(status, json.dumps({"error": code}).encode(), X_Error_Code=code, X_Error_Message=code)

        def handle_request(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            path = unquote(urlsplit(self.path).path)
            hub.requests.append(f"{self.command} {path}")
            if hub.token is not None and self.headers.get("Authorization") != f"Bearer {hub.token}":
                self.refuse(401, "RepoNotFound")
                return
            if path == "/api/datasets/org/set":
                self.act("revision", "main", "", body)
                return
            for prefix in ("/api/datasets/org/set/", "/datasets/org/set/"):
                if path.startswith(prefix):
                    action, _, rest = path.removeprefix(prefix).partition("/")
                    revision, _, inner = rest.partition("/")
                    self.act(action, revision, inner, body)
                    return
            self.refuse(404 if hub.token else 401, "RepoNotFound")

        def act(self, action: str, revision: str, inner: str, body: bytes) -> None:
            found = hub.files(revision)
            if found is None:
                self.refuse(404, "RevisionNotFound")
                return
            sha, files = found
            if action == "revision":
                self.answer(
                    200, json.dumps({"_id": "1", "id": "org/set", "sha": sha, "siblings": []}).encode(), Content_Type="application/json"
                )
            elif action == "tree":
                entries = _tree(files, inner.rstrip("/"))
                if not entries:
                    self.refuse(404, "EntryNotFound")
                    return
                self.answer(200, json.dumps(entries).encode(), Content_Type="application/json")
            elif action == "paths-info":
                wanted = json.loads(body)["paths"] if body.startswith(b"{") else parse_qs(body.decode())["paths"]
                infos = [_file(path, files[path]) for path in wanted if path in files]
                infos += [
                    each for path in wanted for each in _tree(files, path.rpartition("/")[0]) if each["path"] == path and path not in files
                ]
                self.answer(200, json.dumps(infos).encode(), Content_Type="application/json")
            elif action == "resolve" and inner in files:
                self.send_range(files[inner])
            else:
                self.refuse(404, "EntryNotFound")

        def send_range(self, content: bytes) -> None:
            first, _, last = self.headers.get("Range", "bytes=0-").removeprefix("bytes=").partition("-")
            start, stop = int(first), int(last) + 1 if last else len(content)
            self.answer(206, content[start:stop], Content_Range=f"bytes {start}-{stop - 1}/{len(content)}")

        do_GET = do_POST = do_HEAD = handle_request  # noqa: N815 - the base class looks for these names

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
