"""Runs the fake: `python -m storeservers.oss --host 127.0.0.1 --port 8080 --dir data --state state.json`."""

from __future__ import annotations

import argparse
import json
import os
import threading
from collections.abc import Sequence
from pathlib import Path

from storeservers.oss.controls import Controls, ControlServer
from storeservers.oss.server import OssServer
from storeservers.oss.service import Service
from storeservers.oss.shelf import Shelf


def main(arguments: Sequence[str] | None = None) -> None:
    """Serve until the process is terminated."""
    parser = argparse.ArgumentParser(prog="python -m storeservers.oss", description="A fake that speaks OSS's protocol.")
    parser.add_argument("--host", default="127.0.0.1", help="address of the protocol's port")
    parser.add_argument("--port", type=int, default=0, help="0 takes a free port")
    parser.add_argument(
        "--control-port", type=int, default=0, help="port of the control interface, which is always on 127.0.0.1; 0 takes a free port"
    )
    parser.add_argument("--dir", type=Path, required=True, help="the folder that keeps objects between starts")
    parser.add_argument("--state", type=Path, required=True, help="the file to write the server's addresses to when it is ready")
    parser.add_argument("--region", default="cn-hangzhou", help="the region that clients must sign for")
    parser.add_argument("--domain", default="oss.test", help="the domain of virtual hosts, <bucket>.<domain>")
    options = parser.parse_args(arguments)

    controls = Controls()
    shelf = Shelf(options.dir)
    control = ControlServer(("127.0.0.1", options.control_port), controls=controls, shelf=shelf)
    threading.Thread(target=control.serve_forever, daemon=True).start()

    server = OssServer((options.host, options.port), controls=controls, domain=options.domain)
    endpoint = f"http://{options.host}:{server.server_port}"
    server.service = Service(shelf=shelf, controls=controls, region=options.region, endpoint=endpoint)
    _announce(
        options.state,
        {"pid": os.getpid(), "endpoint": endpoint, "control": f"http://127.0.0.1:{control.server_port}"},
    )
    server.serve_forever()


def _announce(path: Path, state: dict[str, str | int]) -> None:
    unfinished = path.with_suffix(".unfinished")
    unfinished.write_text(json.dumps(state))
    unfinished.replace(path)


if __name__ == "__main__":
    main()
