"""Starts all stores for manual work: `python -m storeservers build | up | down`."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from storeservers import hdfs, hdfs_classes, s3
from storeservers.oss import FakeOss
from storeservers.processes import Lifetime, ProcessIdentity, ServerProcess

_STATE = "servers.json"
_GRACE_SECONDS = 10.0


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m storeservers", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("build", help="fetch the jars and build the S3 server, so that no test has to wait for them")
    up = commands.add_parser("up", help="start HDFS, S3 and the OSS fake; they keep running when this command ends")
    up.add_argument("--host", default="127.0.0.1", help="the address to listen on")
    up.add_argument("--dir", type=Path, required=True, help="where the stores keep their data and logs")
    down = commands.add_parser("down", help="stop what `up` has started")
    down.add_argument("--dir", type=Path, required=True, help="the folder given to `up`")
    options = parser.parse_args(arguments)
    match options.command:
        case "build":
            return _build()
        case "up":
            return _up(host=options.host, run_dir=options.dir)
        case _:
            return _down(run_dir=options.dir)


def _build() -> int:
    for made in (hdfs.jars(), hdfs_classes.archive(), s3.binary()):
        sys.stdout.write(f"{made}\n")
    return 0


def _up(*, host: str, run_dir: Path) -> int:
    if (run_dir / _STATE).exists():
        sys.stderr.write(f"{run_dir / _STATE} exists: `down --dir {run_dir}` first.\n")
        return 1
    lifetime = Lifetime.UNTIL_STOPPED
    cluster = hdfs.HdfsCluster(run_dir / "hdfs", host=host, lifetime=lifetime)
    objects = s3.S3Server(run_dir / "s3", host=host, lifetime=lifetime)
    oss = FakeOss(run_dir / "oss", host=host, lifetime=lifetime)
    servers = (cluster, objects, oss)
    try:
        for server in servers:
            server.launch()
        for server in servers:
            server.wait_until_ready()
    except BaseException:
        for server in servers:
            server.stop()
        raise
    state = {
        "hdfs": {
            "uri": cluster.uri,
            "http_address": cluster.http_address,
            "user": cluster.user,
            "processes": _identities(cluster.processes),
        },
        "s3": {
            "endpoint": objects.endpoint,
            "access_key": objects.access_key,
            "secret_key": objects.secret_key,
            "region": objects.region,
            "processes": _identities([objects.process]),
        },
        "oss": {
            "endpoint": oss.endpoint,
            "control_address": oss.control_address,
            "access_key": oss.access_key,
            "secret_key": oss.secret_key,
            "region": oss.region,
            "processes": _identities([oss.process]),
        },
    }
    (run_dir / _STATE).write_text(json.dumps(state, indent=2) + "\n")
    sys.stdout.write(f"{run_dir / _STATE}\n")
    return 0


def _identities(processes: Sequence[ServerProcess]) -> list[dict[str, Any]]:
    return [{"name": each.name, "pid": each.identity.pid, "start_ticks": each.identity.start_ticks} for each in processes]


def _down(*, run_dir: Path) -> int:
    state_file = run_dir / _STATE
    if not state_file.exists():
        sys.stderr.write(f"{state_file} does not exist: nothing to stop.\n")
        return 1
    for store in json.loads(state_file.read_text()).values():
        for process in store["processes"]:
            identity = ProcessIdentity(pid=process["pid"], start_ticks=process["start_ticks"])
            identity.end(grace_seconds=_GRACE_SECONDS)
    state_file.unlink()
    return 0


if __name__ == "__main__":
    sys.exit(main())
