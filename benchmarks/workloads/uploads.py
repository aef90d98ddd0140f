"""Workloads that upload a large file to store servers on loopback. One record is one MiB."""

from collections.abc import Sequence
from typing import Final

from benchmarks.contenders import Contender, Role, limit
from benchmarks.workload import Against, Workload

_UNCHECKED: Final = "parts without any check, four at a time"


def _client(client: str, name: str = "", *, peer: str = "", environment: str | None = None) -> Contender:
    role: Role = "ours" if client == "ours" else "peer"
    return Contender(name or client, role, "uploads.py", client, peer="" if role == "ours" else peer or client, environment=environment)


WORKLOADS: Final[Sequence[Workload]] = (
    Workload(
        "upload-s3",
        "W13: a file to an S3 server (versitygw) on loopback",
        make="one_object",
        records=512,
        quick=64,
        contenders=(_client("ours"), _client("obstore"), _client("boto3", environment="sagemaker")),
        goals={"obstore": 0.8, "boto3": 0.8},
        check="uploaded",
        against=Against("uploaded", "object"),
        server="s3",
    ),
    Workload(
        "upload-oss",
        "W13: a file to the OSS fake on loopback",
        make="one_object",
        records=512,
        quick=64,
        contenders=(
            _client("ours"),
            _client("oss-parts", "the SDK's parts, one at a time", peer="oss"),
            _client("oss-uploader", "the SDK's parts, three at a time", peer="oss"),
            _client("oss-put", "the SDK's put, as a single request", peer="oss"),
            limit(_UNCHECKED, "oss-unchecked", "uploads.py"),
        ),
        goals={"the SDK's parts, one at a time": 1.0, "the SDK's parts, three at a time": 0.8, "the SDK's put, as a single request": 0.8},
        limit=_UNCHECKED,
        check="uploaded",
        against=Against("uploaded", "object"),
        server="oss",
    ),
    Workload(
        "upload-hdfs",
        "W13: a file to HDFS (a NameNode and a DataNode) on loopback",
        make="one_object",
        records=512,
        quick=64,
        contenders=(_client("ours"), _client("hdfs-native", peer="hdfs"), _client("dfs-put", "hdfs dfs -put", peer="hdfs")),
        goals={"hdfs-native": 0.8, "hdfs dfs -put": 0.8},
        check="uploaded",
        against=Against("uploaded", "object"),
        server="hdfs",
    ),
)
