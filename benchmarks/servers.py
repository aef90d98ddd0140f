"""The store servers for the upload workloads. A server is started for one workload, on loopback and on the same cores as the client.

A file next to the output describes the server, so that the peers' interpreters, which don't have our libraries, can find it. The object of
each run has the name of the run's output folder.
"""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from storeservers import FakeOss, HdfsCluster, S3Server, hdfs

BUCKET: Final = "uploads"


@contextmanager
def started(kind: str, folder: Path) -> Iterator[None]:
    """Starts the server of this kind, and describes it in the folder's `server.json`. Does nothing if `kind` is empty."""
    if not kind:
        yield
        return
    with _STARTED[kind](folder / "server") as known:
        (folder / "server.json").write_text(json.dumps({"store": kind, "bucket": BUCKET, **known}))
        yield


@contextmanager
def _s3(folder: Path) -> Iterator[Mapping[str, Any]]:
    with S3Server(folder) as server:
        server.make_bucket(BUCKET)
        yield {
            **_keys(server),
            "uri": f"s3://{BUCKET}",
            "path": str(server.data_dir / BUCKET),
        }


@contextmanager
def _oss(folder: Path) -> Iterator[Mapping[str, Any]]:
    with FakeOss(folder) as server:
        server.make_bucket(BUCKET)
        yield {
            **_keys(server),
            "uri": f"oss://{BUCKET}",
            "objects": f"{server.control_address}objects?bucket={BUCKET}",
            "data": str(folder / "data"),
        }


@contextmanager
def _hdfs(folder: Path) -> Iterator[Mapping[str, Any]]:
    with HdfsCluster(folder, datanodes=1) as cluster:
        cluster.write_client_configuration(folder / "client")
        # Warm up the servers, so that the figures compare the clients and not the start of the JVMs.
        cluster.write("/warm", bytes(32 << 20))
        yield {
            "uri": f"{cluster.uri}/{BUCKET}",
            "url": f"http://{cluster.http_address}/webhdfs/v1/{BUCKET}/OBJECT?op=OPEN&user.name={cluster.user}",
            "classes": f"{folder / 'client'}:{hdfs.jars()}/*",
        }


def _keys(server: S3Server | FakeOss) -> dict[str, str]:
    return {
        "endpoint": server.endpoint,
        "region": server.region,
        "accessKeyId": server.access_key,
        "accessKeySecret": server.secret_key,
    }


_STARTED: Final = {"s3": _s3, "oss": _oss, "hdfs": _hdfs}
