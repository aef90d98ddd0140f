"""A fake API server: it keeps DataPrepJobs, and responds to requests about submitted jobs. No operator runs, so tests set each status."""

import json
import threading
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import parse_qs, urlsplit

import yaml

Body = dict[str, Any]  # the API's JSON
_JOBS = "/apis/dataprep.io/v1alpha1/namespaces/"


@dataclass
class PlayedCluster:
    """The server, which runs on a separate thread."""

    jobs: dict[str, Body] = field(default_factory=dict)
    """The DataPrepJobs, by namespace/name."""
    statuses: list[Body] = field(default_factory=list)
    """The job statuses in the responses to the next requests, in order. The last status is repeated."""
    pods: list[Body] = field(default_factory=list)
    logs: dict[str, bytes] = field(default_factory=dict)
    events: list[Body] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)
    """The method and the target of each request."""
    bodies: list[Body] = field(default_factory=list)
    """The bodies of the requests that have one."""
    refusal: tuple[int, str] | None = None
    """If the server refuses everything: the status and the message of every response."""

    cuts_logs: bool = False
    """Whether the connection ends before the end of a log."""

    faults: list[int] = field(default_factory=list)
    """The status codes of the next responses, which have no other content."""
    faults_after: int | None = None
    """After this many further responses, one request is refused because its credentials have expired."""

    def __enter__(self) -> Self:
        played = self

        class Handler(BaseHTTPRequestHandler):
            def log_message(self, *_: object) -> None:
                pass

            def _answer(self) -> None:
                length = int(self.headers.get("Content-Length") or 0)
                body = json.loads(self.rfile.read(length)) if length else None
                status, content = played.answer(self.command, self.path, body)
                sent = content if isinstance(content, bytes) else json.dumps(content).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(sent) + (played.cuts_logs and self.path.endswith("/log"))))
                self.end_headers()
                self.wfile.write(sent)

            do_GET = do_POST = do_PATCH = do_DELETE = _answer  # noqa: N815 - the names are the base class's

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def kubeconfig(self, folder: Path, *, namespace: str | None = "team") -> Path:
        """Write a kubeconfig file with the server's address, and return its path."""
        context = {"cluster": "played", "user": "me"} | ({"namespace": namespace} if namespace else {})
        file = folder / "kubeconfig"
        document = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "played",
            "clusters": [{"name": "played", "cluster": {"server": f"http://127.0.0.1:{self._server.server_port}"}}],
            "users": [{"name": "me", "user": {"token": "none"}}],
            "contexts": [{"name": "played", "context": context}],
        }
        file.write_text(yaml.safe_dump(document))
        return file

    def answer(self, method: str, target: str, body: Body | None) -> tuple[int, Body | bytes]:
        """Return the status and the content of the response."""
        self.requests.append(f"{method} {target}")
        if body is not None:
            self.bodies.append(body)
        if self.faults_after is not None:
            self.faults_after -= 1
            if self.faults_after < 0:
                self.faults_after = None
                return _failure(401, "expired")
        if self.faults:
            return _failure(self.faults.pop(0), "made up by a test")
        if self.refusal is not None:
            return _failure(*self.refusal)
        url = urlsplit(target)
        query = {name: values[0] for name, values in parse_qs(url.query).items()}
        parts = url.path.split("/")
        if url.path.startswith(_JOBS):
            return self._job(method, f"{parts[5]}/{parts[7] if len(parts) > 7 else ''}", body)
        if parts[-1] == "log":
            return (200, self.logs[parts[-2]]) if parts[-2] in self.logs else _failure(404, "not found")
        items = self.events if parts[-1] == "events" else self.pods
        assert parts[-1] == "pods" or query["fieldSelector"] == "involvedObject.uid=1234"
        # Two pages, so that clients have to ask for the second one.
        first = query.get("continue") is None and len(items) > 1
        page = items[:1] if first else items[1:] if "continue" in query else items
        return 200, {"items": page, "metadata": {"continue": "second" if first else ""}}

    def _job(self, method: str, key: str, body: Body | None) -> tuple[int, Body]:
        if method == "POST":
            assert body is not None
            key += body["metadata"]["name"]
            if key in self.jobs:
                return _failure(409, "already exists")
            self.jobs[key] = {**body, "metadata": {**body["metadata"], "uid": "1234", "resourceVersion": "1", "managedFields": []}}
            return 201, self.jobs[key]
        if key not in self.jobs:
            return _failure(404, f'dataprepjobs.dataprep.io "{key}" not found')
        if method == "DELETE":
            return 200, self.jobs.pop(key)
        if method == "PATCH":
            assert body is not None
            for member, changes in body.items():
                self.jobs[key] = {**self.jobs[key], member: _merged(self.jobs[key][member], changes)}
        if self.statuses:
            self.jobs[key]["status"] = self.statuses.pop(0) if len(self.statuses) > 1 else self.statuses[0]
        return 200, self.jobs[key]


def _merged(before: Body, changes: Body) -> Body:
    return {**before, **{name: _merged(before.get(name) or {}, new) if isinstance(new, dict) else new for name, new in changes.items()}}


def _failure(status: int, message: str) -> tuple[int, Body]:
    return status, {"kind": "Status", "status": "Failure", "code": status, "message": message}
