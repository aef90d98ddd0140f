"""The stores that run next to the cluster: real HDFS and S3 servers, the OSS fake, and a shared folder as a volume."""

import getpass
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from storeservers.hdfs_files import HdfsFiles
from storeservers.oss import FakeOss
from storeservers.s3 import S3Server
from workbench.jobs import Document, Namespace, example

BUCKET = "dataprep-tests"
EXAMPLES = Path(__file__).resolve().parents[3] / "examples"


@dataclass(frozen=True)
class Stores:
    """The servers. They listen on the bridge's address, which both pods and tests can reach."""

    find_hdfs: Callable[[], HdfsFiles]
    s3: S3Server
    oss: FakeOss
    volume: Path
    """A folder of the host that pods mount as a volume."""

    @cached_property
    def hdfs(self) -> HdfsFiles:
        """HDFS with two DataNodes, which other test processes might use too. If the processes share no HDFS, this process starts one for
        its first test that needs HDFS."""
        return self.find_hdfs()

    def settings(self) -> list[dict[str, Any]]:
        """The `spec.stores` entries for all stores."""
        return [
            {"uriPrefix": "hdfs://", "user": getpass.getuser()},
            {
                "uriPrefix": "s3://",
                "endpoint": self.s3.endpoint,
                "region": self.s3.region,
                "pathStyle": True,
                "secretRef": {"name": "s3-key"},
            },
            {
                "uriPrefix": "oss://",
                "endpoint": self.oss.endpoint,
                "region": "cn-hangzhou",
                "pathStyle": True,
                "secretRef": {"name": "oss-key"},
            },
        ]

    def secrets(self) -> list[dict[str, Any]]:
        """The Secrets that the settings refer to."""
        keys = {"s3-key": (self.s3.access_key, self.s3.secret_key), "oss-key": (self.oss.access_key, self.oss.secret_key)}
        return [
            {
                "apiVersion": "v1",
                "kind": "Secret",
                "metadata": {"name": name},
                "stringData": {"accessKeyId": key, "accessKeySecret": secret},
            }
            for name, (key, secret) in keys.items()
        ]


def a_job(stores: Stores, *, name: str, source: str, output: str, **changes: Any) -> Document:
    """examples/mnist-hdfs.yaml with the tests' addresses, one worker, and small pods that leave room for other tests."""
    usual: dict[str, Any] = {
        "name": name,
        "params": {"input": source, "output": output},
        "stores": stores.settings(),
        "output__hdfs": {"replication": 2, "permission": "640"},
        "workers__parallelism": 1,
        "workers__resources__requests__cpu": "200m",
    }
    return example(str(EXAMPLES / "mnist-hdfs.yaml"), **(usual | changes))


def mount(namespace: Namespace, stores: Stores) -> dict[str, Any]:
    """Claims the shared folder in this namespace. Returns the changes with which a job mounts the folder at /data.

    All nodes run on this machine, so a local folder can stand in for a NAS.
    """
    name = f"shared-{namespace.name}"
    capacity = {"storage": "10Gi"}
    volume = {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name},
        "spec": {
            "capacity": capacity,
            "accessModes": ["ReadWriteMany"],
            "storageClassName": "",
            "persistentVolumeReclaimPolicy": "Retain",
            "hostPath": {"path": str(stores.volume)},
            "claimRef": {"name": "shared", "namespace": namespace.name},
        },
    }
    claim = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "shared"},
        "spec": {"accessModes": ["ReadWriteMany"], "storageClassName": "", "volumeName": name, "resources": {"requests": capacity}},
    }
    namespace.apply(volume, claim)
    return {
        "workers__volumes": [{"name": "shared", "persistentVolumeClaim": {"claimName": "shared"}}],
        "workers__volumeMounts": [{"name": "shared", "mountPath": "/data"}],
    }
