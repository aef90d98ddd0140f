"""Reports what a pod of the smoke test sees of its cluster, as one JSON object."""

import base64
import http.server
import json
import os
import socket
import ssl
import threading
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path

ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
SERVICE = "probe.kubecluster-smoke.svc.cluster.local"


def get(url: str) -> str:
    """Fetch a URL. Requests to the API server are authenticated as this pod's service account."""
    request = urllib.request.Request(url)  # noqa: S310 -- only http and https URLs
    context = None
    if url.startswith("https:"):
        request.add_header("Authorization", f"Bearer {(ACCOUNT / 'token').read_text()}")
        context = ssl.create_default_context(cafile=str(ACCOUNT / "ca.crt"))
    with urllib.request.urlopen(request, timeout=10, context=context) as answer:  # noqa: S310
        body: bytes = answer.read()
    return body.decode()


def dns() -> str:
    """Resolve the API server's service."""
    return socket.gethostbyname("kubernetes.default")


def api() -> str:
    """Reach the API server by service name and by address, verifying its certificate."""
    by_name = json.loads(get("https://kubernetes.default.svc/version"))["gitVersion"]
    by_address = json.loads(get(f"https://{os.environ['KUBERNETES_SERVICE_HOST']}/version"))["gitVersion"]
    return f"{by_name} {by_address}"


def issuer() -> str:
    """Fetch the keys that verify tokens. Every service account may read these keys."""
    keys = json.loads(get("https://kubernetes.default.svc/openid/v1/jwks"))["keys"]
    return f"{len(keys)} key"


def own_service() -> str:
    """Reach a pod of this job by the name of a service with a cluster IP. The pod can be on any node."""
    deadline = time.monotonic() + 30
    while True:
        try:
            return get(f"http://{SERVICE}:8080/")
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.2)


def host_server() -> str:
    """Reach a test server on the host."""
    return get(os.environ["HOST_URL"])


def token() -> str:
    """Read the projected token, whose audience is our own."""
    payload = Path("/var/run/smoke/token").read_text().split(".")[1]
    claims = json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
    if claims["aud"] != [os.environ["AUDIENCE"]]:
        raise ValueError(f"expected the audience {os.environ['AUDIENCE']}, got {claims['aud']}")
    return str(claims["kubernetes.io"]["pod"]["name"])


def read_only_root() -> str:
    """Check that writing is refused."""
    try:
        Path("/written").write_text("")
    except OSError as exc:
        return str(exc.strerror)
    raise ValueError("the root file system could be written")


def user() -> str:
    """Check that the user is not root."""
    if os.getuid() == 0:
        raise ValueError("this is root")
    return str(os.getuid())


class Name(http.server.BaseHTTPRequestHandler):
    """Responds with the pod's name."""

    def do_GET(self) -> None:
        """Respond."""
        self.send_response(200)
        self.end_headers()
        self.wfile.write(socket.gethostname().encode())

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 -- the signature of http.server
        """Stay silent."""


CHECKS: dict[str, Callable[[], str]] = {
    "dns": dns,
    "api": api,
    "issuer": issuer,
    "own service": own_service,
    "host server": host_server,
    "token": token,
    "read-only root": read_only_root,
    "user": user,
}


def see() -> dict[str, str]:
    """Run all checks, even if one fails."""
    seen = {"index": os.environ["JOB_COMPLETION_INDEX"], "node address": os.environ["HOSTNAME"]}
    for name, look in CHECKS.items():
        try:
            seen[name] = f"ok: {look()}"
        except Exception as exc:
            seen[name] = f"{type(exc).__name__}: {exc}"
    return seen


if __name__ == "__main__":
    server = http.server.ThreadingHTTPServer(("0.0.0.0", 8080), Name)  # noqa: S104 -- inside a pod
    threading.Thread(target=server.serve_forever, daemon=True).start()
    print(json.dumps(see()), flush=True)  # noqa: T201 -- the pod's log is the answer
    # Keep serving for the other pods' checks.
    time.sleep(5)
